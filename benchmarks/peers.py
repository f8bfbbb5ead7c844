"""Other duplicate finders, each told to find and to change nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import Spent, timed

#: Where `cargo install` puts programs.
CARGO = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "bin"
PATH = f"{os.environ.get('PATH', os.defpath)}:{CARGO}"


@dataclass(frozen=True)
class Peer:
    """A finder's command line; `TREE` and `FILE` stand for the folder and for where it may leave a list."""

    name: str
    command: str
    #: Ends with these when all went well.
    good: frozenset[int] = frozenset({0})

    @property
    def program(self) -> str | None:
        return shutil.which(self.command.split()[0], path=PATH)

    def run(self, tree: Path, scratch: Path) -> Spent:
        """Find the duplicates of `tree`; what was printed is in `listing`."""
        words = self.command.split()[1:]
        filled = [{"TREE": str(tree), "FILE": str(scratch / f"{self._slug}.list")}.get(word, word) for word in words]
        return timed([str(self.program), *filled], output=self.listing(scratch), folder=scratch, good=self.good)

    def listing(self, scratch: Path) -> Path:
        return scratch / f"{self._slug}.out"

    def version(self) -> str:
        done = subprocess.run(
            [str(self.program), "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        found = re.search(r"\d+(\.\d+)+", done.stdout)
        return found.group() if found else "of unknown version"

    @property
    def _slug(self) -> str:
        return re.sub(r"\W+", "_", self.name)


#: It compares bytes, so its answer is the one ours is held against. Hard links of one file it lists once, and empty
#: files not at all; the trees hold neither.
JDUPES = Peer("jdupes", "jdupes -q -r TREE")
JDUPES_QUICK = Peer("jdupes -Q", "jdupes -q -Q -r TREE")

PEERS = (
    JDUPES_QUICK,
    JDUPES,
    Peer("hardlink", "hardlink -n -c TREE"),
    Peer("rdfind", "rdfind -outputname FILE TREE"),
    Peer("fclones", "fclones group TREE -o FILE"),
    # It ends with 11 where it found duplicates.
    Peer("czkawka", "czkawka_cli dup -d TREE -m 1 -H -f FILE", good=frozenset({0, 11})),
    Peer("fdupes", "fdupes -q -r TREE"),
    Peer("rmlint", "rmlint -T df -a xxhash -o fdupes:stdout TREE"),
    Peer("duff", "duff -r TREE"),
)


def present() -> list[Peer]:
    return [peer for peer in PEERS if peer.program]


def missing() -> list[str]:
    return [peer.name for peer in PEERS if not peer.program]


def versions() -> str:
    """Which programs were measured, in which version, and which are not here."""
    names = {peer.command.split()[0]: f"{peer.command.split()[0]} {peer.version()}" for peer in present()}
    line = f"Peers: {', '.join(names.values())}."
    return f"{line} Not installed: {', '.join(missing())}." if missing() else line
