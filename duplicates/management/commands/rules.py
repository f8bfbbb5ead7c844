"""`manage.py rules`: the sets of keep rules from a terminal, and as files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from duplicates import rule_sets
from duplicates.models import RuleSet
from duplicates.rule_folders import Libraries, with_ids, with_names
from duplicates.rule_kinds import WrongRule
from duplicates.rule_showing import words_of
from duplicates.rules import RulesError
from libraries.names import to_display


class Command(PreparedCommand):
    help = (
        "The sets of keep rules. Without more it lists them; show prints one in words, or with --json as a file that "
        "save takes, here or on another machine: folders name their library. save makes a set, or changes the one of "
        "that name."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="show|save|remove")
        show = verbs.add_parser("show", help="Print one set")
        show.add_argument("name", metavar="NAME")
        show.add_argument("--json", action="store_true", dest="as_json", help="As JSON, for save --file")
        save = verbs.add_parser("save", help="Make or change one set")
        save.add_argument("name", metavar="NAME")
        save.add_argument("--file", required=True, metavar="FILE", help="A JSON list of rules; - is standard input")
        remove = verbs.add_parser("remove", help="Remove one set; plans made with it stay as they are")
        remove.add_argument("name", metavar="NAME")

    def handle(self, *_args: Any, verb: str | None, **options: Any) -> None:
        verbs = {"show": self._show, "save": self._save, "remove": self._remove}
        verbs.get(verb or "", self._list)(options)

    def _list(self, _options: dict[str, Any]) -> None:
        names = Libraries().names
        for rule_set in RuleSet.objects.all():
            self._print(rule_set, names)
        if not RuleSet.objects.exists():
            self.stdout.write("There are no sets of rules. Make one with: rules save NAME --file FILE")

    def _show(self, options: dict[str, Any]) -> None:
        rule_set = _find(options["name"])
        names = Libraries().names
        if not options["as_json"]:
            return self._print(rule_set, names)
        self.stdout.write(json.dumps(with_names(rule_set.rules, names), indent=2))
        return None

    def _save(self, options: dict[str, Any]) -> None:
        libraries = Libraries()
        known = RuleSet.objects.filter(name=options["name"].strip()).values_list("pk", flat=True).first()
        try:
            rules = with_ids(_read(options["file"]), libraries.ids)
            saved = rule_sets.save(options["name"], rules, actor=actor(), rule_set_id=known)
        except (WrongRule, RulesError, rule_sets.Refused) as refusal:
            raise CommandError(str(refusal)) from None
        self._print(saved, libraries.names)

    def _remove(self, options: dict[str, Any]) -> None:
        rule_set = _find(options["name"])
        rule_sets.remove(rule_set.pk, actor=actor())
        self.stdout.write(f"“{to_display(rule_set.name)}” is removed.")

    def _print(self, rule_set: RuleSet, names: dict[int, str]) -> None:
        words, problem = words_of(rule_set, names)
        self.stdout.write(to_display(rule_set.name))
        for number, line in enumerate(words, 1):
            self.stdout.write(f"  {number}. {line}")
        if problem:
            self.stdout.write(f"  These rules can't be used. {problem}")
        elif not words:
            self.stdout.write("  No rules: every file stays.")


def _find(name: str) -> RuleSet:
    found = RuleSet.objects.filter(name=name.strip()).first()
    if found is None:
        raise CommandError(f"There is no set of rules “{to_display(name)}”. “rules” lists those there are.")
    return found


def _read(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} can't be read: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file} is no JSON: {error}") from None
