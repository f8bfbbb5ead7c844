"""A set of rules while somebody writes it: rows that are added, moved and taken away before anything is saved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext_lazy

from duplicates.models import RuleSet
from duplicates.rule_folders import Libraries
from duplicates.rule_kinds import KINDS, Folder, WrongRule
from duplicates.rule_sets import WrongName, checked_name
from duplicates.rules import MOST_RULES, RulesError, parse

_KIND_FIELD = re.compile(r"rule-(\d{1,4})-kind")
_STEP = re.compile(r"(up|down|drop)-(\d{1,4})")
#: Longer than anything that is meant; what is longer is cut and then refused.
VALUE_CHARACTERS = 500_000

HELP = {
    "keep_in": gettext_lazy("One folder a line, the best first. The copy in the first one that has a copy stays."),
    "never_touch": gettext_lazy("One folder a line. Whatever lies there stays; it says nothing about other copies."),
    "remove_only_under": gettext_lazy(
        "One folder a line. Whatever lies elsewhere stays, and copies there go before copies elsewhere."
    ),
    "keep_oldest": gettext_lazy("By the time of the last change to its content."),
    "keep_newest": gettext_lazy("By the time of the last change to its content."),
    "keep_shortest_path": gettext_lazy("By the number of characters of the whole path."),
    "keep_longest_path": gettext_lazy("By the number of characters of the whole path."),
    "keep_name": gettext_lazy("* stands for anything, ? for one character. Capitals make no difference."),
    "avoid_name": gettext_lazy("* stands for anything, ? for one character. Capitals make no difference."),
    "keep_most_links": gettext_lazy("The copy that stands in most places as the same file."),
    "keep_copies": gettext_lazy("The first ones in the order of the rules stay. Without this rule, one does."),
    "keep_per": gettext_lazy("The first one of each, in the order of the rules, stays."),
}
PER = (("library", gettext_lazy("library")), ("filesystem", gettext_lazy("filesystem")))
FIRST_VALUES = {"count": "2", "per": "filesystem"}


@dataclass
class Row:
    """A rule as it is being written: its kind, and the one thing that this kind needs."""

    kind: str
    value: str = ""
    #: Stays with the row wherever it is moved.
    key: int = 0
    problem: str = ""

    @property
    def label(self) -> str:
        return str(KINDS[self.kind].label)

    @property
    def takes(self) -> str:
        return KINDS[self.kind].takes

    @property
    def help(self) -> str:
        return str(HELP[self.kind])

    @property
    def is_blank(self) -> bool:
        return bool(self.takes) and not self.value.strip()

    @property
    def lines(self) -> int:
        """How tall the field for folders is."""
        return min(max(self.value.count("\n") + 2, 2), 10)

    def as_json(self, libraries: Libraries) -> dict[str, Any]:
        if not self.takes:
            return {"kind": self.kind}
        return {"kind": self.kind, self.takes: self._value(libraries)}

    def _value(self, libraries: Libraries) -> Any:
        text = self.value.strip()
        if self.takes == "folders":
            lines = [line.strip() for line in self.value.replace("\r", "\n").split("\n")]
            return [libraries.read_line(line).as_json() for line in lines if line]
        if self.takes == "count":
            return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
        return text


@dataclass
class Draft:
    name: str = ""
    rows: list[Row] = field(default_factory=list)
    name_problem: str = ""
    problem: str = ""

    @classmethod
    def of(cls, rule_set: RuleSet, libraries: Libraries) -> Draft:
        return cls(rule_set.name, _rows(rule_set.rules, libraries))

    @classmethod
    def ready_made(cls, key: str, libraries: Libraries) -> Draft:
        """One to start from; none where there is no such one."""
        if key not in READY_MADE:
            return cls()
        name, rules = READY_MADE[key]
        return cls(str(name), _rows(rules, libraries))

    @classmethod
    def sent(cls, values: Mapping[str, str]) -> Draft:
        numbers = sorted(int(found[1]) for key in values if (found := _KIND_FIELD.fullmatch(key)))
        draft = cls(values.get("name", "")[:1000])
        for number in numbers:
            kind, key = values[f"rule-{number}-kind"], values.get(f"rule-{number}-key", "")
            if kind in KINDS:
                text = values.get(f"rule-{number}-value", "")[:VALUE_CHARACTERS]
                is_number = key.isascii() and key.isdecimal() and len(key) < 10
                draft.rows.append(Row(kind, text, int(key) if is_number else number))
        return draft

    @property
    def has_problems(self) -> bool:
        return bool(self.problem or self.name_problem or any(row.problem for row in self.rows))

    def take_step(self, step: str, new_kind: str) -> None:
        """Add a rule, or move or drop one. A step that makes no sense changes nothing."""
        if step == "add" and new_kind in KINDS and len(self.rows) < MOST_RULES:
            key = max((row.key for row in self.rows), default=0) + 1
            self.rows.append(Row(new_kind, FIRST_VALUES.get(KINDS[new_kind].takes, ""), key))
        found = _STEP.fullmatch(step)
        if found is None or int(found[2]) >= len(self.rows):
            return
        place = int(found[2])
        row = self.rows.pop(place)
        if found[1] != "drop":
            self.rows.insert(max(place - 1, 0) if found[1] == "up" else place + 1, row)

    def check(self, libraries: Libraries, *, with_name: bool = True) -> list[dict[str, Any]]:
        """The rules as JSON; what is wrong is noted where it belongs, and then the list is of no use."""
        if with_name:
            try:
                checked_name(self.name)
            except WrongName as problem:
                self.name_problem = str(problem)
        rules: list[dict[str, Any]] = []
        for row in self.rows:
            try:
                rules.append(row.as_json(libraries))
            except WrongRule as problem:
                row.problem = str(problem)
                rules.append({"kind": "keep_oldest"})  # holds its place, so that the others are asked too
        try:
            parse(rules)
        except RulesError as error:
            self._note(error)
        return rules

    def _note(self, error: RulesError) -> None:
        for number, text in error.problems:
            if number:
                self.rows[number - 1].problem = self.rows[number - 1].problem or text
            else:
                self.problem = text


def _rows(rules: list[dict[str, Any]], libraries: Libraries) -> list[Row]:
    rows = []
    for key, rule in enumerate(rules, 1):
        takes = KINDS[rule["kind"]].takes
        value = rule.get(takes, "")
        if takes == "folders":
            value = "\n".join(libraries.write_line(Folder.read(each)) for each in value)
        rows.append(Row(rule["kind"], str(value), key))
    return rows


#: Sets to start from; they name no folder, so they fit everywhere.
READY_MADE: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "originals": (
        gettext_lazy("Originals before copies"),
        [
            {"kind": "avoid_name", "pattern": "*([0-9])*"},
            {"kind": "avoid_name", "pattern": "*copy*"},
            {"kind": "keep_oldest"},
            {"kind": "keep_shortest_path"},
        ],
    ),
    "one-per-disk": (
        gettext_lazy("One on each filesystem"),
        [{"kind": "keep_per", "per": "filesystem"}, {"kind": "keep_oldest"}, {"kind": "keep_shortest_path"}],
    ),
}


def kind_choices() -> list[tuple[str, str]]:
    return [(kind, str(each.label)) for kind, each in KINDS.items()]


def ready_made_sets() -> list[tuple[str, str, tuple[Any, ...]]]:
    """Key, name and rules of each, for pages."""
    return [(key, str(name), parse(rules)) for key, (name, rules) in READY_MADE.items()]
