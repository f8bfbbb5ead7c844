"""`manage.py recover`: take back what lost its worker, now."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from accounts.command_line import actor
from jobs.recovering import recover_all


class Command(BaseCommand):
    help = (
        "Take back every row whose lease ran out, in every table that has leases. Consumers do this by themselves; "
        "the command is for when none runs, or when waiting is not wanted."
    )
    requires_system_checks: list[str] = []  # they load every page, which this needs not

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="Print one JSON object: table to rows")

    def handle(self, *_args: Any, as_json: bool, **_options: Any) -> None:
        counts = recover_all(actor=actor())
        if as_json:
            self.stdout.write(json.dumps(counts))
            return
        for table, count in counts.items():
            self.stdout.write(f"{table}: {count} {'row' if count == 1 else 'rows'} taken back")
