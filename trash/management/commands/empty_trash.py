"""`manage.py empty_trash`: remove for good what has been in the trash for long, as an admin has allowed."""

from __future__ import annotations

import json
import re
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from jobs import stopping
from jobs.errors import Refused

_AGE = re.compile(r"(\d{1,5})\s*(d|w)?", re.ASCII)


class Command(PreparedCommand):
    help = (
        "Remove for good what has been in the trash for so long. It needs an admin's leave (“empty the trash after …"
        " days” on the settings page, and not less than that here), the switch for removing, and"
        " DEDUPFS_ALLOW_REAL_DELETE. A file of which no other copy is found, read and equal, stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than", required=True, metavar="AGE", help="Days or weeks: 30d, 8w")
        parser.add_argument("--json", action="store_true", help="One JSON object instead of words")

    def handle(self, *_args: Any, **options: Any) -> None:
        from trash.emptying_by_age import ask_emptying_by_age
        from trash.stayed import stayed_of

        days = _days(options["older_than"])
        try:
            act = ask_emptying_by_age(days, actor=actor())
            ended = None if act is None else _carried_out(act)
        except Refused as refusal:
            raise CommandError(str(refusal)) from None
        except KeyboardInterrupt:
            raise CommandError("Stopped. What is gone is gone; a consumer that runs does the rest.") from None
        stayed = [] if ended is None else stayed_of(ended)
        if options["json"]:
            self.stdout.write(json.dumps(_described(ended, stayed), ensure_ascii=True))
        else:
            self._tell(ended, stayed, days)
        if ended is not None and ended.status != "completed":
            raise CommandError(f"{ended} is {ended.status}: {ended.note or 'it did not come to its end'}")

    def _tell(self, act: Any, stayed: list[Any], days: int) -> None:
        from frame.templatetags.human import size_words
        from trash.stayed import in_words

        if act is None:
            self.stdout.write(f"Nothing has been in the trash for {days} days or more.")
            return
        freed = sum(after - before for before, after in act.space.values())
        self.stdout.write(
            f"{act.done_count:,} files were removed for good, {len(stayed):,} stay."
            f" The filesystems have {size_words(max(freed, 0))} more free than before."
        )
        if gone := act.skipped_count - len(stayed):
            self.stdout.write(f"{gone:,} were not in the trash any more.")
        for line in in_words(stayed):
            self.stdout.write(line)


def _carried_out(act: Any) -> Any:
    from trash.running_now import carry_out_now

    stopping.listen()
    return carry_out_now(act, actor=actor())


def _days(text: str) -> int:
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise CommandError(f"--older-than: “{text[:40]}” is no age. Write days or weeks: 30d, 8w.")
    return int(found[1]) * (7 if found[2] == "w" else 1)


def _described(act: Any, stayed: list[Any]) -> dict[str, Any]:
    from trash.stayed import as_objects

    if act is None:
        return {"act": None, "emptied": 0, "stayed": 0, "space": {}, "items": []}
    return {
        "act": act.pk,
        "status": act.status,
        "emptied": act.done_count,
        "stayed": len(stayed),
        "space": act.space,
        "note": act.note,
        "items": as_objects(stayed),
    }
