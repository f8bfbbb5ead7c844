"""Sets of rules as pages show them, and what rules would do to the first groups: from the index alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db.models import Count
from django.db.models.functions import Now

from duplicates import listing
from duplicates.facts import FileFacts, files_of, read_places
from duplicates.models import DuplicateGroup, Plan, RuleSet
from duplicates.rule_kinds import Rule
from duplicates.rule_words import in_words, shown
from duplicates.rules import REMOVE, RulesError, Verdict, decide, parse

#: How many groups a preview shows, and how many files of each.
PREVIEW_GROUPS = 10
PREVIEW_FILES = 12
#: A group of more files than this is only named: a page must not read a million rows to show twelve.
MOST_FILES = 1000
#: How long a preview may look for its groups.
PREVIEW_SECONDS = 1.0


# --- The list -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownSet:
    rule_set: RuleSet
    now: datetime
    words: list[str]
    #: Why its rules can't be used; "" where they can.
    problem: str
    plan_count: int


def read_sets(names: Mapping[int, str]) -> list[ShownSet]:
    counted = Plan.objects.exclude(rule_set_name="").values_list("rule_set_name").annotate(Count("id"))
    plans = dict(counted)
    found = []
    for rule_set in RuleSet.objects.annotate(now=Now()):
        words, problem = words_of(rule_set, names)
        found.append(ShownSet(rule_set, rule_set.now, words, problem, plans.get(rule_set.name, 0)))
    return found


def words_of(rule_set: RuleSet, names: Mapping[int, str]) -> tuple[list[str], str]:
    """Its rules in words, or why there are none."""
    try:
        return [in_words(rule, names) for rule in parse(rule_set.rules)], ""
    except RulesError as error:
        return [], str(error)


# --- The preview --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownFile:
    file: FileFacts
    verdict: Verdict

    @property
    def path(self) -> str:
        return shown(self.file.path)

    @property
    def library(self) -> str:
        return shown(self.file.place.name)

    @property
    def goes(self) -> bool:
        return self.verdict.role == REMOVE


@dataclass(frozen=True)
class ShownGroup:
    group: DuplicateGroup
    name: str = ""
    files: list[ShownFile] = field(default_factory=list)
    going: int = 0
    staying: int = 0

    @property
    def is_too_large(self) -> bool:
        return self.group.file_count > MOST_FILES

    @property
    def more_files(self) -> int:
        return self.going + self.staying - len(self.files)


@dataclass(frozen=True)
class Preview:
    groups: list[ShownGroup]

    @property
    def going(self) -> int:
        return sum(group.going for group in self.groups)

    @property
    def staying(self) -> int:
        return sum(group.staying for group in self.groups)


def read_preview(rules: tuple[Rule, ...]) -> Preview:
    """What these rules would do to the groups with most to win."""
    page = listing.page(listing.Filter(), "reclaimable", None, PREVIEW_GROUPS, seconds=PREVIEW_SECONDS)
    groups = [group for group in page.groups if group.file_count <= MOST_FILES]
    found = files_of([(group.hash_algorithm, bytes(group.content_hash)) for group in groups], read_places())
    return Preview([_shown(group, found, rules) for group in page.groups])


def _shown(
    group: DuplicateGroup, found: Mapping[tuple[str, bytes], Sequence[FileFacts]], rules: tuple[Rule, ...]
) -> ShownGroup:
    files = found.get((group.hash_algorithm, bytes(group.content_hash)), [])
    if not files:
        return ShownGroup(group)
    verdicts = decide(files, rules, young_after_ns=young_after_ns())
    lines = [ShownFile(file, verdict) for file, verdict in zip(files, verdicts, strict=True)]
    # What stays first: the reasons of the others name it.
    lines.sort(key=lambda line: line.goes)
    going = sum(line.goes for line in lines)
    return ShownGroup(group, shown(files[0].name), lines[:PREVIEW_FILES], going, len(lines) - going)


def young_after_ns() -> int | None:
    """What has changed since then may still be written to."""
    if not settings.YOUNG_HOURS:
        return None
    return time.time_ns() - settings.YOUNG_HOURS * 3600 * 10**9
