"""`manage.py plan`: make a plan in this process and print what it amounts to."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from jobs import stopping
from jobs.errors import Refused
from libraries.models import LibraryRoot
from libraries.names import to_display, to_text

#: Items that are printed.
FIRST_ITEMS = 20


class Command(PreparedCommand):
    help = (
        "Make a plan by a rule set: which copies would stay, which would go, and why. No file is touched. The plan is "
        "saved and can be read on its page. It is made in this process and needs no consumer."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rules", required=True, metavar="NAME", help="The rule set")
        parser.add_argument("--filter", metavar="QUERY", help="Which groups, as the query of the groups' page says it")
        parser.add_argument("--library", metavar="NAME", help="Only groups with a file in this library")
        parser.add_argument("--folder", metavar="PATH", help="and below this folder of it")
        parser.add_argument("--least-size", metavar="SIZE", help="Only files from this size: 64 kB, 1.5 GB")
        parser.add_argument("--action", default="trash", choices=["trash", "hardlink", "delete"])
        parser.add_argument(
            "--remove-empty-folders", action="store_true", help="Folders that are empty afterwards go as well"
        )
        parser.add_argument(
            "--link-despite-metadata",
            action="store_true",
            help="With --action hardlink: also where owner, mode or extended attributes differ",
        )
        parser.add_argument("--json", action="store_true", help="One JSON object instead of words")

    def handle(self, *_args: Any, **options: Any) -> None:
        from duplicates.planning import checked, plan_now

        try:
            rule_set = _rule_set(options["rules"])
            wish = checked(
                options["action"],
                rule_set.rules,
                rule_set.name,
                _filter(options),
                removes_empty_folders=options["remove_empty_folders"],
                links_despite_metadata=options["link_despite_metadata"],
            )
            stopping.listen()
            plan = plan_now(wish, actor=actor())
        except Refused as refusal:
            raise CommandError(str(refusal)) from None
        except KeyboardInterrupt:
            raise CommandError("Stopped. The plan is not complete; a consumer that runs makes it anew.") from None
        if plan.status != "ready":
            why = plan.job.error_message or plan.job.status if plan.job else "its job is gone"
            raise CommandError(f"Plan {plan.pk} is not ready: {why}")
        if options["json"]:
            self.stdout.write(json.dumps(_described(plan), ensure_ascii=True))
        else:
            self._tell(plan)

    def _tell(self, plan: Any) -> None:
        from duplicates.facts import read_places
        from duplicates.plan_words import described, library_name
        from frame.templatetags.human import size_words

        places = read_places()
        self.stdout.write(
            f"Plan {plan.pk}: {plan.remove_count:,} files of {plan.group_count:,} groups would go ({plan.action}),"
            f" {plan.keep_count:,} stay; {size_words(plan.freed_bytes)} come back."
            f" {plan.untouched_count:,} groups are left as they are."
        )
        for warning in filter(None, map(described, plan.warnings)):
            self.stdout.write(f"! {warning.title}. {warning.text}".rstrip())
            for example in warning.examples:
                self.stdout.write(f"    {example}")
        for item in _first(plan):
            sign = "=" if item.role == "keep" else "-"
            place = library_name(item.library_id, places)
            self.stdout.write(f"{sign} {place}: {to_display(item.relative_path)}  ({to_display(item.reason)})")
        rest = plan.files.count() - FIRST_ITEMS
        if rest > 0:
            self.stdout.write(f"… and {rest:,} more. No file was touched.")


def _first(plan: Any) -> list[Any]:
    return list(plan.files.order_by("pk")[:FIRST_ITEMS])


def _described(plan: Any) -> dict[str, Any]:
    totals = ("group_count", "keep_count", "remove_count", "remove_bytes", "freed_bytes", "untouched_count")
    return {
        "plan": plan.pk,
        "status": plan.status,
        "action": plan.action,
        "rules": plan.rule_set_name,
        "filter": plan.filter,
        "removes_empty_folders": plan.removes_empty_folders,
        "links_despite_metadata": plan.links_despite_metadata,
        **{name: getattr(plan, name) for name in totals},
        "left_out": plan.left_out,
        "warnings": plan.warnings,
        "first_items": [
            {
                "role": item.role,
                "library_id": item.library_id,
                "path": to_display(item.relative_path),
                "size_bytes": item.size_bytes,
                "reason": to_display(item.reason),
            }
            for item in _first(plan)
        ],
    }


def _rule_set(name: str) -> Any:
    from duplicates.models import RuleSet

    found = RuleSet.objects.filter(name=name).first()
    if found is None:
        there = ", ".join(RuleSet.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"There is no rule set called {name}. There is: {there}.")
    return found


def _filter(options: dict[str, Any]) -> str:
    """A whole query, or its parts as options; not both, or nobody could say which one counts."""
    parts = {name: options[name] for name in ("library", "folder", "least_size") if options[name]}
    if options["filter"] is not None:
        if parts:
            raise CommandError("Give --filter, or --library, --folder and --least-size; not both.")
        return str(options["filter"])
    query: dict[str, Any] = {}
    if "library" in parts:
        query["library"] = _library(parts["library"])
    if "folder" in parts:
        query["folder"] = to_text(os.fsencode(parts["folder"]))
    if "least_size" in parts:
        query["least_bytes"] = _size(parts["least_size"])
    return urlencode(query)


def _library(name: str) -> int:
    found = LibraryRoot.objects.kept().filter(name=name).first()
    if found is None:
        there = ", ".join(LibraryRoot.objects.kept().values_list("name", flat=True)) or "none yet"
        raise CommandError(f"There is no library called {name}. There is: {there}.")
    return int(found.pk)


def _size(text: str) -> int:
    from libraries.forms import SizeField

    try:
        return int(SizeField().clean(text))
    except forms.ValidationError as error:
        raise CommandError(f"--least-size: {' '.join(error.messages)}") from None
