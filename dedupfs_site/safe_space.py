"""How much of what could be won is safe to win: by the rules that somebody saved, from the index alone.

Deciding about every group takes a plan. A page looks at the groups with most to win for a moment, says of how many it
speaks, and keeps what it found for a while.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from django.core.cache import cache

from duplicates import listing
from duplicates.facts import FileFacts, files_of, read_places
from duplicates.models import DuplicateGroup, RuleSet
from duplicates.plan_storing import PlannedFile, totals_of_group
from duplicates.rule_kinds import Rule
from duplicates.rule_showing import young_after_ns
from duplicates.rules import REMOVE, RulesError, decide, parse

#: Groups that are decided about at the most, and how many of them are read at a time.
MOST_GROUPS = 1_000
PAGE_GROUPS = 250
#: A group of more files than this is left to a plan.
MOST_FILES = 1_000
#: Sets that are tried, the latest changed first.
MOST_SETS = 3
PATIENCE_SECONDS = 0.5
KEPT_SECONDS = 120


@dataclass(frozen=True)
class SafeSpace:
    """What one saved set of rules would free."""

    rule_set_id: int
    rule_set_name: str
    #: Of these groups: how many they are, and what could be won of them.
    group_count: int = 0
    reclaimable_bytes: int = 0
    freed_bytes: int = 0
    #: These are all groups there are.
    is_all: bool = False


def read_safe() -> SafeSpace | None:
    """Of the saved sets the one that frees most; None where there is none that can be used."""
    sets = list(RuleSet.objects.order_by("-updated_at", "-id")[:MOST_SETS])
    if not sets:
        return None
    key = f"safe-space-{'-'.join(f'{each.pk}.{each.updated_at.timestamp()}' for each in sets)}"
    kept: SafeSpace | None = cache.get(key)
    if kept is None:
        kept = _decide(sets)
        cache.set(key, kept, KEPT_SECONDS)
    return kept


def _decide(sets: list[RuleSet]) -> SafeSpace | None:
    usable = [(each, rules) for each in sets if (rules := _parsed(each)) is not None]
    if not usable:
        return None
    found = [SafeSpace(each.pk, each.name) for each, _rules in usable]
    cursor: str | None = None
    until = time.monotonic() + PATIENCE_SECONDS
    places = read_places()
    while True:
        page = listing.page(listing.Filter(), "reclaimable", cursor, PAGE_GROUPS, seconds=PATIENCE_SECONDS)
        groups = [group for group in page.groups if group.file_count <= MOST_FILES]
        files = files_of([(group.hash_algorithm, bytes(group.content_hash)) for group in groups], places)
        found = [
            _plus(each, groups, list(files.values()), rules) for each, (_set, rules) in zip(found, usable, strict=True)
        ]
        cursor = page.next_cursor
        is_all = cursor is None and page.is_complete and len(groups) == len(page.groups)
        if cursor is None or found[0].group_count >= MOST_GROUPS or time.monotonic() > until:
            return replace(max(found, key=lambda each: each.freed_bytes), is_all=is_all)


def _plus(
    before: SafeSpace, groups: list[DuplicateGroup], files: list[list[FileFacts]], rules: tuple[Rule, ...]
) -> SafeSpace:
    young = young_after_ns()
    freed = 0
    for some in files:
        verdicts = decide(some, rules, young_after_ns=young)
        planned = [
            PlannedFile(file, verdict.keeper_id if verdict.role == REMOVE else None, "")
            for file, verdict in zip(some, verdicts, strict=True)
        ]
        freed += totals_of_group(planned).freed_bytes
    return replace(
        before,
        group_count=before.group_count + len(groups),
        reclaimable_bytes=before.reclaimable_bytes + sum(group.reclaimable_bytes for group in groups),
        freed_bytes=before.freed_bytes + freed,
    )


def _parsed(rule_set: RuleSet) -> tuple[Rule, ...] | None:
    try:
        return parse(rule_set.rules)
    except RulesError:
        return None
