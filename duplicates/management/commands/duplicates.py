"""`manage.py duplicates`: print the groups of equal files."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from typing import Any

from django.core.management.base import CommandParser

from database.prepared_command import PreparedCommand
from duplicates.exporting import harmless_csv
from duplicates.finding import Group, Member, groups
from libraries.names import to_bytes, to_display


class Command(PreparedCommand):
    help = (
        "Print every group of files with equal content, as the last scan and hash left it. --json is one object a "
        "line; --csv one file a line, no cell of which runs as a formula; --fdupes one absolute path a line as raw "
        "bytes, with an empty line after each group. Empty files are left out unless --empty is given."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_const", dest="form", const="json", help="One JSON object a line")
        form.add_argument(
            "--csv", action="store_const", dest="form", const="csv", help="One file a line, with a header"
        )
        form.add_argument("--fdupes", action="store_const", dest="form", const="fdupes", help="Paths as raw bytes")
        parser.add_argument("--empty", action="store_true", help="Empty files are a group too")

    def handle(self, *_args: Any, form: str | None, empty: bool, **_options: Any) -> None:
        printer = {"json": _as_json, "csv": _as_csv, "fdupes": _as_fdupes}.get(form or "", _as_text)
        try:
            printer(0 if empty else 1)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read has seen enough; without this Python complains once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _path(member: Member) -> bytes:
    return _root(member.root_path) + to_bytes(member.relative_path)


@cache
def _root(path: str) -> bytes:
    return to_bytes(path) + b"/"


def _as_fdupes(least_bytes: int) -> None:
    out = sys.stdout.buffer
    for group in groups(least_bytes):
        out.write(b"\n".join(map(_path, group.members)) + b"\n\n")


def _as_json(least_bytes: int) -> None:
    for group in groups(least_bytes):
        sys.stdout.write(json.dumps(_described(group)) + "\n")


def _described(group: Group) -> dict[str, Any]:
    return {
        "group_key": group.key,
        "size_bytes": group.size_bytes,
        "files": [
            {
                "file_id": member.file_id,
                "library": member.library_name,
                "path": to_display(member.relative_path),
                # A name that is no text can't be written as JSON; these bytes are the whole truth.
                "path_hex": _path(member).hex(),
            }
            for member in group.members
        ],
    }


def _as_csv(least_bytes: int) -> None:
    write_row = harmless_csv(sys.stdout)
    write_row(["group_key", "size_bytes", "file_id", "library", "path", "path_hex"])
    for group in groups(least_bytes):
        for member in group.members:
            shown = (to_display(member.library_name), to_display(member.relative_path))
            write_row([group.key, group.size_bytes, member.file_id, *shown, _path(member).hex()])


def _as_text(least_bytes: int) -> None:
    count = waste = 0
    for group in groups(least_bytes):
        count, waste = count + 1, waste + group.further_bytes
        sys.stdout.write(f"{len(group.members)} files of {group.size_bytes:,} bytes\n")
        for member in group.members:
            sys.stdout.write(f"  {to_display(member.library_name)}: {to_display(member.relative_path)}\n")
    sys.stdout.write(f"{count:,} groups, {waste:,} bytes in further copies\n")
