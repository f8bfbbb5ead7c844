"""`manage.py check PATH`: is everything below PATH already in the libraries? Without PATH it is Django's own."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands.check import Command as SystemCheck
from django.db import DatabaseError, connection

from libraries.names import to_bytes, to_display

#: What only Django's own command understands.
_OWN = ("tags", "list_tags", "deploy", "databases")


class Command(SystemCheck):
    help = (
        "Check whether everything below PATH (a card, an old disk) is already in the libraries, and in how many places."
        " Nothing is written below PATH or anywhere else. Symlinks, special files and what a new library leaves out "
        "(@eaDir, .git, …) are not looked at. Exit code 0: all of it is here; 1: not all; 2: it could not be checked. "
        "Without PATH, Django's system checks are run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        for action in parser._actions:
            if action.dest == "args":
                action.metavar = "PATH"
        parser.add_argument("--json", action="store_true", help="One JSON object a line for each file")
        parser.add_argument("--missing", action="store_true", help="List only what is not here")

    def handle(self, *arguments: Any, **options: Any) -> None:
        path = _path_of(arguments, options)
        if path is None:
            super().handle(*arguments, **options)
            return
        try:
            is_all_here = self._check(path, as_json=options["json"], missing=options["missing"])
        except BrokenPipeError:
            # Whoever read has seen enough, but nobody has seen the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(2)
        except KeyboardInterrupt:
            raise CommandError("Stopped before the end.", returncode=2) from None
        sys.exit(0 if is_all_here else 1)

    def _check(self, path: str, *, as_json: bool, missing: bool) -> bool:
        from duplicates.checking import HERE, Check, CheckError, Tally
        from jobs.errors import JobsError
        from libraries.management.commands.add_library import whole_path

        try:
            if "library_files" not in connection.introspection.table_names():
                raise CheckError("There is no index yet: add a library and scan it first.")
            check, tally = Check(os.fsencode(whole_path(path))), Tally()
            if check.inside_of:
                self.stderr.write(f"It shares files with {', '.join(check.inside_of)}: only copies elsewhere count.")
            for answer in check.answers():
                tally.add(answer)
                if answer.state != HERE or not missing:
                    sys.stdout.write((_as_json(answer, check.root) if as_json else _as_text(answer)) + "\n")
        except (CheckError, JobsError, DatabaseError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise CommandError(str(error), returncode=2) from None
        if not tally.files and not tally.unreadable:
            raise CommandError("There is no file below it. Is its disk mounted?", returncode=2)
        (sys.stderr if as_json else sys.stdout).write(tally.words() + "\n")
        sys.stdout.flush()
        return tally.is_all_here


def _path_of(arguments: tuple[str, ...], options: dict[str, Any]) -> str | None:
    """The folder that is meant; None where it is Django's own command. One that could be both is refused: its "no
    issues" must never be taken for "everything is here"."""
    labels = {config.label for config in apps.get_app_configs()}
    is_ours = options.get("json") or options.get("missing")
    if any(options.get(name) for name in _OWN) or (not arguments and not is_ours):
        if is_ours:
            raise CommandError("--json and --missing go with a PATH, not with the system checks.", returncode=2)
        return None
    if arguments and all(each in labels for each in arguments) and not is_ours:
        both = [each for each in arguments if os.path.lexists(each)]
        if both:
            raise CommandError(
                f"“{both[0]}” is a folder here and an app of Django's. Write ./{both[0]} for the folder.", returncode=2
            )
        return None
    if len(arguments) != 1 or not arguments[0]:
        raise CommandError("Name one folder.", returncode=2)
    return arguments[0]


def _as_text(answer: Any) -> str:
    line = f"{answer.state:<10} {to_display(answer.path) or '.'}"
    if answer.is_folder:
        line += "/ and all below it"
    if answer.copies:
        where = ", ".join(f"{to_display(copy.place.name)}: {to_display(copy.path)}" for copy in answer.where[:3])
        copies = "1 copy" if answer.copies == 1 else f"{answer.copies:,} copies"
        disks = "" if answer.filesystems == 1 else f" on {answer.filesystems:,} filesystems"
        line += f"  ({copies}{disks}; {where}{', …' if len(answer.where) > 3 else ''})"
    return f"{line}  [{answer.note}]" if answer.note else line


def _as_json(answer: Any, root: bytes) -> str:
    return json.dumps({
        "path": to_display(answer.path),
        # A name that is no text can't be written as JSON; these bytes are the whole truth.
        "path_hex": (root.rstrip(b"/") + b"/" + to_bytes(answer.path)).hex(),
        "state": answer.state,
        "is_folder": answer.is_folder,
        "copies": answer.copies,
        "filesystems": answer.filesystems,
        "where": [
            {
                "library": copy.place.name,
                "path": to_display(copy.path),
                "path_hex": (to_bytes(copy.place.root_path) + b"/" + to_bytes(copy.path)).hex(),
                "filesystem": copy.place.filesystem_of(copy.path),
            }
            for copy in answer.where
        ],
        "note": answer.note,
    })  # fmt: skip
