"""`manage.py library`: look at the libraries, rename, pause, resume and remove them from a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from frame.templatetags.human import size_words
from libraries import changing, removing
from libraries.errors import LibrariesError
from libraries.models import LibraryRoot, LibraryState
from libraries.names import to_display

LINE = "{:<24}  {:<9}  {:<9}  {:>12}  {:>9}  {}"
NONE_YET = "There is no library yet. Add one: manage.py add_library NAME PATH"


class Command(PreparedCommand):
    help = (
        "Look at the libraries and decide about them, each known by its name. None of this changes a file. "
        "A new library is added with add_library, and scanned with scan."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|rename|pause|resume|remove")
        listed = verbs.add_parser("list", help="All libraries, with what is known of their disks")
        listed.add_argument("--json", action="store_true", dest="as_json", help="Print JSON, as the API does")
        rename = verbs.add_parser("rename", help="Call a library something else; nothing is scanned anew")
        pause = verbs.add_parser("pause", help="Neither scan nor hash it by itself until it is resumed")
        resume = verbs.add_parser("resume", help="Let its schedule count again")
        remove = verbs.add_parser("remove", help="Take a library away: its rows go, its files stay. Does not ask")
        for verb in (rename, pause, resume, remove):
            verb.add_argument("name", metavar="NAME", help="Its name, as `library list` shows it")
        rename.add_argument("new", metavar="NEW", help="Its new name")
        remove.add_argument(
            "--even-if-unseen",
            action="store_true",
            help="Also where its disk is away, so that nobody can look whether its trash holds anything",
        )

    def handle(self, *_args: Any, verb: str, **options: Any) -> None:
        getattr(self, f"handle_{verb}")(options)

    def handle_list(self, options: dict[str, Any]) -> None:
        libraries = list(LibraryRoot.objects.kept().select_related("state").order_by("name"))
        if options["as_json"]:
            self._print_json(libraries)
        elif libraries:
            header = LINE.format("NAME", "ROLE", "DISK", "FILES", "SIZE", "FOLDER")
            self.stdout.write("\n".join([header, *map(line_of, libraries)]))
        else:
            self.stdout.write(NONE_YET)

    def handle_rename(self, options: dict[str, Any]) -> None:
        library = find(options["name"])
        with refusals_as_errors():
            renamed = changing.change(library.pk, actor=actor(), name=options["new"])
        self.stdout.write(f"“{to_display(library.name)}” is called “{to_display(renamed.name)}” now.")

    def handle_pause(self, options: dict[str, Any]) -> None:
        library = find(options["name"])
        with refusals_as_errors():
            changing.pause(library.pk, actor=actor())
        name = to_display(library.name)
        self.stdout.write(f"“{name}” is paused: it is not scanned or hashed by itself until it is resumed.")

    def handle_resume(self, options: dict[str, Any]) -> None:
        library = find(options["name"])
        with refusals_as_errors():
            changing.resume(library.pk, actor=actor())
        self.stdout.write(f"“{to_display(library.name)}” is resumed: its schedule counts again.")

    def handle_remove(self, options: dict[str, Any]) -> None:
        library = find(options["name"])
        with refusals_as_errors():
            removing.remove(library.pk, actor=actor(), even_if_unseen=options["even_if_unseen"])
        name, root = to_display(library.name), to_display(library.root_path)
        self.stdout.write(f"“{name}” is being removed: its rows go, its files in {root} stay.")

    def _print_json(self, libraries: list[LibraryRoot]) -> None:
        # Only who wants it waits for the API to be loaded.
        from ninja.responses import NinjaJSONEncoder

        from libraries.api import shown

        items = [shown(library).model_dump() for library in libraries]
        self.stdout.write(json.dumps({"items": items}, cls=NinjaJSONEncoder))


@contextmanager
def refusals_as_errors() -> Iterator[None]:
    try:
        yield
    except removing.Unseen as refusal:
        raise CommandError(f"{refusal} (--even-if-unseen)") from None
    except LibrariesError as refusal:
        raise CommandError(str(refusal)) from None


def find(name: str) -> LibraryRoot:
    try:
        return LibraryRoot.objects.kept().get(name=name)
    except (LibraryRoot.DoesNotExist, UnicodeEncodeError):  # an argument may hold bytes that are no text
        raise CommandError(f"There is no library {name!r}. `manage.py library list` shows those there are.") from None


def line_of(library: LibraryRoot) -> str:
    """One that a foreign tool has made has no state: of it nothing is known yet."""
    state: LibraryState = getattr(library, "state", None) or LibraryState(mount="unknown", file_count=0, total_bytes=0)
    name = f"{to_display(library.name)}{' (paused)' if library.is_paused else ''}"
    size = size_words(state.total_bytes)
    return LINE.format(name, library.role, state.mount, f"{state.file_count:,}", size, to_display(library.root_path))
