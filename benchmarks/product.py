"""DedupFS as somebody at a shell runs it: `add_library`, `scan --now`, `duplicates`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scratch import ROOT
from benchmarks.timing import Spent, timed

#: Loads the settings, every application and every model, and does nothing.
EMPTY = ("version",)
SCAN = ("scan", "--now")
DUPLICATES = ("duplicates", "--fdupes")


@dataclass(frozen=True)
class Installation:
    """A state folder whose one library is a tree, and a folder for what runs leave."""

    state: Path
    tree: Path
    scratch: Path
    #: Python's compiled files, kept from run to run: an installation that was started before has them too.
    compiled: Path

    @property
    def environment(self) -> dict[str, str]:
        """As in a plain shell: settings of this one's Python (unbuffered, no compiled files) would cost ours time."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PYTHONPYCACHEPREFIX": str(self.compiled),
            "DEDUPFS_STATE_ROOT": str(self.state),
            "DEDUPFS_LIBRARIES_ROOT": str(self.tree.parent),
            "DJANGO_SETTINGS_MODULE": "dedupfs_site.settings",
            "DATABASE_URL": "",
        }

    @property
    def listing(self) -> Path:
        return self.scratch / "ours.out"

    def empty(self) -> Spent:
        return self._timed(EMPTY, self.scratch / "empty.out")

    def scan(self) -> Spent:
        return self._timed(SCAN, self.scratch / "scan.out")

    def duplicates(self) -> Spent:
        return self._timed(DUPLICATES, self.listing)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(ROOT / "manage.py"), *words]

    def do(self, *words: str) -> None:
        subprocess.run(self.command(*words), env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def compile(self) -> None:
        apart = r"/\.venv/|/state/|/benchmarks/"
        command = [sys.executable, "-m", "compileall", "-q", "-x", apart, str(ROOT)]
        subprocess.run(command, env=self.environment, check=True)

    def warm_up(self) -> None:
        """Have the program's own files in memory, without a look at the tree."""
        for words in (EMPTY, ("scan", "--help"), ("duplicates", "--help")):
            self.do(*words)

    def renew(self, pristine: Path) -> None:
        """Begin again with a database in which nothing was ever scanned."""
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.copytree(pristine, self.state)

    def _timed(self, words: tuple[str, ...], output: Path) -> Spent:
        return timed(self.command(*words), output=output, environment=self.environment, folder=self.scratch)


@contextmanager
def installed(tree: Path, work: Path) -> Iterator[tuple[Installation, Path]]:
    """An installation on `tree`, and a copy of its state folder as it was before the first scan."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=work) as folder:
        here = Path(folder)
        installation = Installation(here / "state", tree, here, work / "compiled")
        installation.compile()
        installation.do("migrate", "-v", "0")
        installation.do("add_library", tree.name, str(tree))
        pristine = here / "pristine"
        shutil.copytree(installation.state, pristine)
        yield installation, pristine
