"""Files for a test: `tree(tmp_path, {"a/x.jpg": b"1"})`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def tree(root: Path, files: Mapping[str, bytes] | Mapping[bytes, bytes]) -> Path:
    """Make `files` below `root`, by names that may be bytes; return `root`."""
    for name, content in files.items():
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return root
