"""`docs/operating/settings.md` lists every setting with its default, and no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.site.running import environment

ROW = re.compile(r"^\| `([A-Z_]+)` \| (?:`([^`]+)`|none) \| (\S.*) \|$", re.MULTILINE)
ASK = """
import json
from dedupfs_site import settings
from dedupfs_site.environment import DECLARED
print(json.dumps({each.name: each.default for each in DECLARED.values()}))
"""
#: Not settings: what tests and systemd tell a process, and what is handed on to children.
NO_SETTINGS = {
    "database/crash_points.py",
    "database/migrating.py",
    "database/postgres_tools.py",
    "dedupfs_site/environment.py",
    "dedupfs_site/management/commands/up.py",
    "dedupfs_site/wsgi.py",
    "thumbnails/child_environment.py",
}


def documented() -> dict[str, str]:
    text = (ROOT / "docs/operating/settings.md").read_text(encoding="utf-8")
    rows = ROW.findall(text)
    assert len(rows) == text.count("\n| `"), "a row of the table is not written like the others"
    return {name: default for name, default, _ in rows}


def declared(state: Path) -> dict[str, str]:
    """Asked in a process where nothing is set, with the folders named as the page names them."""
    answer = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, env=environment(state), capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(answer.stdout)
    return {name: value.replace(str(state), "./state").replace(f"{ROOT}/", "./") for name, value in found.items()}


def test_every_setting_is_documented_with_its_default(tmp_path: Path) -> None:
    assert documented() == declared(tmp_path / "state")


def test_settings_are_read_in_one_place_only() -> None:
    """A variable that is read elsewhere would be missing from the list above."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    readers = {
        str(path.relative_to(ROOT))
        for package in packages
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"\b(environ|getenv)\b", path.read_text(encoding="utf-8"))
    }
    assert readers - NO_SETTINGS == set()
