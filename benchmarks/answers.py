"""Is the answer right? On every tree the groups must be those of jdupes, which compares bytes, to the file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.options import Options
from benchmarks.peers import JDUPES
from benchmarks.product import installed
from benchmarks.report import Section, table
from benchmarks.trees import TREES, built

Groups = set[frozenset[bytes]]


def groups(listing: Path) -> Groups:
    """What `jdupes` and `duplicates --fdupes` print: a path a line, an empty line between groups."""
    blocks = listing.read_bytes().split(b"\n\n")
    return {frozenset(block.split(b"\n")) for block in (part.strip(b"\n") for part in blocks) if block}


def compare(ours: Path, theirs: Path, tree: str) -> Groups:
    """The groups, which both have found; where they differ the benchmark ends here."""
    mine, right = groups(ours), groups(theirs)
    if mine != right:
        sys.exit(f"WRONG ANSWER on tree {tree}: {_difference(mine, right)}")
    return mine


def _difference(mine: Groups, right: Groups) -> str:
    extra, lacking = mine - right, right - mine
    lines = [f"{len(extra):,} groups of ours are not jdupes', {len(lacking):,} groups of jdupes are not ours."]
    for what, found in (("only ours", extra), ("only jdupes'", lacking)):
        lines += [f"{what}: {sorted(group)}" for group in sorted(found, key=sorted)[:3]]
    return "\n".join(lines)


def measure(options: Options) -> Iterator[Section]:
    rows = [_row(name, options) for name in options.trees]
    what = (
        "The groups that `duplicates --fdupes` prints after `scan --now`, against those of `jdupes -q -r`, which "
        "compares bytes: as sets of sets of paths. A difference ends the benchmark, here and in every other race."
    )
    head = ["tree", "files", "groups", "files in groups", "equal"]
    yield Section("The answer is jdupes'", f"{what}\n\n{table(head, rows)}")


def _row(name: str, options: Options) -> list[str]:
    tree = built(name, options.work)
    with installed(tree, options.work) as (ours, _):
        ours.scan()
        ours.duplicates()
        JDUPES.run(tree, ours.scratch)
        found = compare(ours.listing, JDUPES.listing(ours.scratch), name)
    members = sum(map(len, found))
    return [name, f"{TREES[name].files:,}", f"{len(found):,}", f"{members:,}", "yes, to the file"]
