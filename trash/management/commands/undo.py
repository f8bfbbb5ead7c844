"""`manage.py undo`: bring files back from the trash, by the records or by a manifest alone."""

from __future__ import annotations

import json
import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from accounts.command_line import actor
from jobs import stopping
from jobs.errors import Refused
from libraries.errors import NotThere
from libraries.names import to_display, to_text


class Command(BaseCommand):
    help = (
        "Bring files back from the trash to where they were. They are read again on the way, nothing is overwritten,"
        " and what can't come back stays in the trash with its reason. It is done in this process and needs no"
        " consumer. With --from-manifest it needs no database either."
    )
    requires_system_checks: list[str] = []  # they load every page, and need a database

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("plan", nargs="?", type=int, metavar="PLAN", help="All that a plan put into the trash")
        parser.add_argument("--item", action="append", type=int, metavar="ID", help="One file; may be repeated")
        parser.add_argument(
            "--folder", nargs=2, metavar=("LIBRARY", "PATH"), help="What came from a folder of a library"
        )
        parser.add_argument("--all", action="store_true", help="Everything in the trash")
        parser.add_argument(
            "--from-manifest",
            metavar="DIR",
            help="What lies in this .dedupfs-trash, or in one act's folder of it, by its manifest alone",
        )
        parser.add_argument("--json", action="store_true", help="One JSON object instead of words")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["from_manifest"] is not None:
            if options["plan"] or options["item"] or options["folder"] or options["all"]:
                raise CommandError("--from-manifest brings back all that its folder holds; give nothing beside it.")
            self._undo_from(os.fsencode(options["from_manifest"]), as_json=options["json"])
        else:
            self._undo(_selection(options), as_json=options["json"])

    # --- By the records -----------------------------------------------------------------------------------
    def _undo(self, selection: dict[str, Any], *, as_json: bool) -> None:
        from trash.authorising import ask_undo
        from trash.choosing_items import deleted_for_good
        from trash.running_now import carry_out_now
        from trash.stayed import stayed_of

        try:
            for_good = deleted_for_good(selection)
            act = ask_undo(selection, actor=actor())
            stopping.listen()
            act = carry_out_now(act, actor=actor())
        except (Refused, NotThere) as refusal:
            raise CommandError(str(refusal)) from None
        except KeyboardInterrupt:
            raise CommandError("Stopped. What is back stays back; a consumer that runs does the rest.") from None
        stayed = stayed_of(act)
        if as_json:
            self.stdout.write(json.dumps(_described(act, stayed, for_good), ensure_ascii=True))
        else:
            self._tell(act, stayed, for_good)
        if act.status != "completed":
            raise CommandError(f"{act} is {act.status}: {act.note or 'it did not come to its end'}")
        if stayed:
            raise CommandError(f"{len(stayed):,} of the files stay in the trash.")

    def _tell(self, act: Any, stayed: list[Any], for_good: int) -> None:
        from trash.stayed import in_words

        self.stdout.write(f"{act.done_count:,} files are back where they were, {len(stayed):,} stay in the trash.")
        for line in in_words(stayed):
            self.stdout.write(line)
        if for_good:
            self.stdout.write(f"{for_good:,} files were removed for good and can't come back.")

    # --- By a manifest ------------------------------------------------------------------------------------
    def _undo_from(self, folder: bytes, *, as_json: bool) -> None:
        from trash.from_manifest import BadTrash, undo_from

        known = _Known()
        told = []
        try:
            for each in undo_from(folder, known.mark):
                told.append(each)
                if not as_json:
                    shown = to_display(to_text(each.path)) or os.fsdecode(each.name)
                    sign, why = "+" if each.is_undone else "!", f": {each.reason} ({each.code})" if each.code else ""
                    self.stdout.write(f"{sign} {shown}{why}")
        except BadTrash as error:
            raise CommandError(str(error)) from None
        back = sum(each.is_undone for each in told)
        if as_json:
            figures = {"undone": back, "stayed": len(told) - back, "known_to_the_database": known.count}
            items = [each.described() for each in told]
            self.stdout.write(json.dumps({**figures, "database": known.words, "items": items}, ensure_ascii=True))
        else:
            self.stdout.write(f"{back:,} files are back where they were, {len(told) - back:,} stay in the trash.")
            self.stdout.write(known.words)
        if back != len(told):
            raise CommandError(f"{len(told) - back:,} of the files stay in the trash.")


class _Known:
    """Tells the database, where there is one that knows of the files."""

    def __init__(self) -> None:
        self.count = 0
        self.words = ""

    def mark(self, key: str, told: list[Any]) -> None:
        from trash.marking_undone import is_database_there, mark_undone, why_not_asked

        if not is_database_there():
            self.words = why_not_asked()
            return
        try:
            self.count += mark_undone(key, told, actor=actor())
        except (DatabaseError, InterfaceError) as error:
            self.words = f"The database could not be told: {error}"
        else:
            self.words = f"The database knew {self.count:,} of them, and has them as undone."


def _selection(options: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if options["plan"] is not None:
        given["plan"] = options["plan"]
    if options["item"]:
        given["items"] = options["item"]
    if options["folder"]:
        given["folder"] = [_library(options["folder"][0]), to_text(os.fsencode(options["folder"][1]))]
    if options["all"]:
        given["all"] = True
    if len(given) != 1:
        raise CommandError("Say what is to come back: a plan's number, --item, --folder, --all or --from-manifest.")
    return given


def _library(name: str) -> int:
    from libraries.models import LibraryRoot

    found = LibraryRoot.objects.filter(name=name).first()
    if found is None:
        there = ", ".join(LibraryRoot.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"There is no library called {name}. There is: {there}.")
    return int(found.pk)


def _described(act: Any, stayed: list[Any], for_good: int) -> dict[str, Any]:
    from trash.stayed import as_objects

    return {
        "act": act.pk,
        "status": act.status,
        "undone": act.done_count,
        "stayed": len(stayed),
        "removed_for_good": for_good,
        "note": act.note,
        "items": as_objects(stayed),
    }
