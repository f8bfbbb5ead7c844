"""`manage.py add_library NAME PATH`: add a library from a terminal."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from libraries import adding
from libraries.errors import Refused
from libraries.excluding import DEFAULT_PATTERNS
from libraries.models import LibraryRoot
from libraries.names import to_display

LARGEST = 2**63 - 1


def whole(text: str) -> int:
    if not text.isdecimal() or int(text) > LARGEST:
        raise ArgumentTypeError("write a whole number, 0 or larger")
    return int(text)


class Command(PreparedCommand):
    help = (
        "Add a folder as a library. It must lie below one of the folders of DEDUPFS_LIBRARIES_ROOT "
        "and share no file with a library there is. Nothing in it is changed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="How it is called on every page")
        parser.add_argument("path", metavar="PATH", help="Its folder; from the current folder unless it begins with /")
        parser.add_argument(
            "--role",
            choices=LibraryRoot.Role.values,
            default="normal",
            help="protected: nothing in it is ever acted on; backup: its copies never count as reclaimable (normal)",
        )
        parser.add_argument(
            "--exclude",
            action="append",
            metavar="PATTERN",
            help="Leave this out beside the usual list (@eaDir, .git, …); may be given more than once",
        )
        parser.add_argument("--no-default-excludes", action="store_true", help="Leave out only what --exclude names")
        parser.add_argument("--min-size", type=whole, default=0, metavar="BYTES", help="Leave out smaller files (0)")
        parser.add_argument("--hash-everything", action="store_true", help="Read also files that can have no twin")
        parser.add_argument(
            "--take-young", action="store_true", help="Let plans take files however lately they changed"
        )
        schedule = parser.add_mutually_exclusive_group()
        schedule.add_argument("--every", type=whole, default=0, metavar="MINUTES", help="Scan it so often by itself")
        schedule.add_argument("--cron", default="", metavar="EXPRESSION", help='Scan it at these times: "30 2 * * 0"')

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            library = adding.add(options["name"], whole_path(options["path"]), actor=actor(), **chosen(options))
        except Refused as refusal:
            raise CommandError(str(refusal)) from None
        name, root = to_display(library.name), to_display(library.root_path)
        self.stdout.write(f"Library {library.pk} “{name}” is added: {root}")


def whole_path(path: str) -> str:
    """As the shell means it: from the current folder, and `..` from where a link leads."""
    absolute = Path(path).absolute()
    return str(absolute.resolve() if ".." in absolute.parts else absolute) if path else ""


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Only what was asked for; the rest is as the database has it."""
    values: dict[str, Any] = {"role": options["role"], "min_size_bytes": options["min_size"]}
    values["hash_everything"] = options["hash_everything"]
    values["takes_young"] = options["take_young"]
    usual = () if options["no_default_excludes"] else DEFAULT_PATTERNS
    if options["exclude"] or options["no_default_excludes"]:
        values["exclude_patterns"] = [*usual, *(options["exclude"] or ())]
    if options["every"]:
        values["scan_interval_minutes"] = options["every"]
    if options["cron"]:
        values["scan_cron"] = options["cron"]
    return values
