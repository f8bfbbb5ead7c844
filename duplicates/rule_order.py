"""Copies in the order of the rules, and which of them stay: the front, and whatever is equal to its last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duplicates.facts import FileFacts
from duplicates.rule_kinds import KeepPer


class Copy(NamedTuple):
    """One inode by its best name. Sorts by what the rules say, then by id."""

    rank: list[int]
    id: int
    file: FileFacts
    inode_key: tuple[int, int]


class Outcome(NamedTuple):
    """Why a copy stays: `preferred` to another by a rule, `undecided` against another, `wanted` by a rule, `only`."""

    code: str
    rule: int = 0
    other: FileFacts | None = None


class Wanted(NamedTuple):
    """How many copies stay, and the numbers of the rules that say so."""

    copies: int = 1
    copies_rule: int = 0
    per: KeepPer | None = None
    per_rule: int = 0


_ONLY = Outcome("only")


def settle(copies: Sequence[Copy], numbers: Sequence[int], wanted: Wanted) -> dict[int, Outcome]:
    """Of copies in their order those that stay, by id; `numbers` are those of the rules behind each rank."""
    if len(copies) == 1:
        return {copies[0].id: _ONLY}
    if wanted.per is None:
        return _front(copies, numbers, wanted.copies, wanted.copies_rule)
    staying: dict[int, Outcome] = {}
    for part in _parts(copies, wanted.per).values():
        for key, outcome in _front(part, numbers, 1, wanted.per_rule).items():
            staying.setdefault(key, outcome)
    missing = wanted.copies - len(staying)
    if missing > 0:
        rest = [copy for copy in copies if copy.id not in staying]
        staying |= _front(rest, numbers, missing, wanted.copies_rule)
    return staying


def _parts(copies: Sequence[Copy], per: KeepPer) -> dict[object, list[Copy]]:
    parts: dict[object, list[Copy]] = {}
    for copy in copies:
        parts.setdefault(per.part_of(copy.file), []).append(copy)
    return parts


def _front(ordered: Sequence[Copy], numbers: Sequence[int], count: int, wanted_rule: int) -> dict[int, Outcome]:
    """The first `count`, with those that are equal to the last of them."""
    if len(ordered) <= count:
        return {copy.id: Outcome("wanted", wanted_rule) for copy in ordered}
    edge = ordered[count - 1].rank
    end = count
    while end < len(ordered) and ordered[end].rank == edge:
        end += 1
    front = ordered[:end]
    equal = [copy for copy in front if copy.rank == edge] if end > count else []
    # What comes after the front; or, where nothing does, the first of those that are equal at its end.
    behind = ordered[end] if end < len(ordered) else equal[0]
    staying = {}
    for copy in front:
        if equal and copy.rank == edge:
            other = equal[1] if copy is equal[0] else equal[0]
            staying[copy.id] = Outcome("undecided", 0, other.file)
        else:
            staying[copy.id] = Outcome("preferred", numbers[parting(copy, behind)], behind.file)
    return staying


def parting(first: Copy, second: Copy) -> int:
    """Which of the ranks is the first that differs."""
    place = 0
    while first.rank[place] == second.rank[place]:
        place += 1
    return place
