"""Take over the database file of an earlier implementation: `manage.py adopt PATH`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from database.adopting import Adoption, adopt_database
from database.errors import DatabaseRoomError
from database.tallying import Note, Tally


class Command(BaseCommand):
    help = "Bring a SQLite file of an earlier implementation to this version; the old file is kept beside it."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path, help="the SQLite file; nothing may have it open")
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        report = (lambda _: None) if options["json"] else self.stdout.write
        try:
            adoption = adopt_database(options["path"], report)
        except DatabaseRoomError as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps(adoption.as_dict()))
        else:
            self.stdout.write("\n".join(_told(adoption)))


def _told(adoption: Adoption) -> Iterator[str]:
    if adoption.was_adopted_before:
        yield f"{adoption.path} is DedupFS's own already; nothing was changed."
        return
    yield f"Adopted {adoption.path}; the old file is kept as {adoption.kept_as}."
    yield from _told_of_rows(adoption.tally)
    if adoption.tally.unknown_tables:
        yield f"Left behind in the old file: the tables {', '.join(adoption.tally.unknown_tables)}."
    for table, columns in adoption.tally.unknown_columns.items():
        yield f"Left behind in the old file: of {table} the columns {', '.join(columns)}."


def _told_of_rows(tally: Tally) -> Iterator[str]:
    for each in tally.recovered:
        yield f"{each.table} {each.id}: was {each.was}, now retryable ({each.error_code})."
    for table, notes in tally.left_out.items():
        for why, note in notes.items():
            yield f"Left out of {table}: {note.rows:,} rows ({_ids(note)}): {why}."
    for table, notes in tally.changed.items():
        for what, note in notes.items():
            yield f"Changed in {table}: {note.rows:,} rows ({_ids(note)}): {what}."


def _ids(note: Note) -> str:
    return ", ".join(note.ids) + (", …" if note.rows > len(note.ids) else "")
