"""The folder of the main path: files and their copies, groups for three portions of the list, and two that take long to
read."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tests.tree import tree

#: The list begins with 25 groups, and each "load more" brings fifty.
SMALL_GROUPS = 108
#: Read to their end these are 72 MB: six minutes at the pace of the first scan, longer than any test lasts.
LARGE_GROUPS = 2
LARGE_BYTES = 18_000_000
#: Quick enough for the small ones, which the scan reads itself.
SLOW_PACE = "200 kB"

#: Digest, time and mode.
Content = tuple[str, int, int]


@dataclass
class Photos:
    """What lies on the disk, and in which order the list shows its groups: what wins most back is first."""

    root: Path
    names: list[str] = field(default_factory=list)
    before: dict[str, Content] = field(default_factory=dict)

    @classmethod
    def below(cls, root: Path) -> Photos:
        photos = cls(root)
        dice = random.Random(7)
        sizes = [LARGE_BYTES + number for number in range(LARGE_GROUPS)] + [300 + n for n in range(SMALL_GROUPS)]
        for number, size in enumerate(sorted(sizes, reverse=True)):
            name, content = f"{number:03}", dice.randbytes(size)
            tree(root, {f"2024/{name}.bin": content, f"old/{name} copy.bin": content})
            photos.names.append(name)
        photos.before = photos.now()
        return photos

    def now(self) -> dict[str, Content]:
        """Every file as it is; what a trash keeps apart is not among them."""
        files = [each for folder in ("2024", "old") for each in (self.root / folder).iterdir()]
        return {str(file.relative_to(self.root)): _content(file) for file in files}


def _content(file: Path) -> Content:
    info = file.stat()
    return sha256(file.read_bytes()).hexdigest(), info.st_mtime_ns, info.st_mode
