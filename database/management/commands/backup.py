"""Copy the database while everything runs: `manage.py backup [PATH]`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from database.backing_up import back_up
from database.errors import DatabaseRoomError


class Command(BaseCommand):
    help = "Write a consistent, checked copy of the database; everything may go on running."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "path",
            nargs="?",
            type=Path,
            help="a new file, or a folder; by default the state folder's backups/",
        )
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            backup = back_up(options["path"])
        except DatabaseRoomError as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            answer = {"path": str(backup.path), "size_bytes": backup.size_bytes, "rows": backup.rows}
            self.stdout.write(json.dumps({**answer, "dangling_references": backup.dangling}))
            return
        self.stdout.write(f"Backed up to {backup.path} ({backup.size_bytes:,} bytes, checked).")
        if backup.dangling:
            self.stdout.write(f"The database has {backup.dangling:,} references that point nowhere; so has the copy.")
