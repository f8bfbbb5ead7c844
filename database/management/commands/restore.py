"""Put a backup in the place of the database: `manage.py restore PATH`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from database.errors import DatabaseRoomError
from database.restoring import Restored, restore_database


class Command(BaseCommand):
    help = "Replace the database by a backup. Everything must be stopped; the database of now is kept beside it."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path, help="a file that `backup` wrote")
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            restored = restore_database(options["path"])
        except DatabaseRoomError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(_as_json(restored) if options["json"] else _as_text(restored))


def _as_json(restored: Restored) -> str:
    return json.dumps(
        {
            "backup": str(restored.backup),
            "kept_as": str(restored.kept_as) if restored.kept_as else None,
            "migrated": restored.migrated,
        }
    )


def _as_text(restored: Restored) -> str:
    lines = [f"Restored {restored.backup}."]
    if restored.migrated:
        lines.append(f"It was older than this version; migrated: {', '.join(restored.migrated)}.")
    if restored.kept_as:
        lines.append(f"The database of before is kept as {restored.kept_as}; remove it when you no longer need it.")
    lines.append("Work that ran when the backup was made is taken back by the next `manage.py up`.")
    return "\n".join(lines)
