"""`manage.py folders`: search for folders that share content, and print the pairs."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from libraries.names import to_bytes, to_display


class Command(PreparedCommand):
    help = (
        "Search for pairs of folders that share most of their content, in this process and in the index alone: no disk "
        "is touched. Prints the pairs, the one that shares most bytes first; --json is one object a line."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="One JSON object a line")

    def handle(self, *_args: Any, **options: Any) -> None:
        from duplicates import folder_pairs, overlapping
        from jobs import stopping

        stopping.listen()
        search = overlapping.search_now(actor(), self.stderr.write)
        if search.status != "completed":
            raise CommandError(search.error_message or "Stopped. Nothing was stored; pages show the last search.")
        printer = _as_json if options["json"] else _as_text
        try:
            for shown in folder_pairs.every(search):
                sys.stdout.write(printer(shown) + "\n")
            if not options["json"]:
                sys.stdout.write(f"{search.pair_count:,} pairs\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if search.error_message:
            self.stderr.write(search.error_message)


def _as_text(shown: Any) -> str:
    pair = shown.pair
    lines = [f"{pair.shared_bytes:,} bytes in both, {pair.shared_files:,} contents"]
    for letter, side in (("A", shown.left), ("B", shown.right)):
        only = f"{side.only_files:,} only here" if side.only_files else "all of them also in the other"
        where = f"{to_display(side.place.name)}: {to_display(side.folder) or '(the whole library)'}"
        lines.append(f"  {letter} {where}  {side.files:,} files, {only}")
    return "\n".join(lines)


def _as_json(shown: Any) -> str:
    pair = shown.pair
    described = {"pair_id": pair.pk, "shared_files": pair.shared_files, "shared_bytes": pair.shared_bytes}
    for name, side in (("left", shown.left), ("right", shown.right)):
        root = to_bytes(side.place.root_path)
        described[name] = {
            "library": side.place.name,
            "folder": to_display(side.folder),
            # A name that is no text can't be written as JSON; these bytes are the whole truth.
            "path_hex": (root + b"/" + to_bytes(side.folder) if side.folder else root).hex(),
            "files": side.files,
            "bytes": side.bytes,
            "only_files": side.only_files,
        }
    return json.dumps(described)
