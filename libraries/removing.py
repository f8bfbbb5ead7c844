"""Removing a library: its rows go, its files stay. Asking is one short transaction; the rows go in batches after it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from database.crash_points import reach
from jobs import stopping
from libraries import asking
from libraries.asking import Look, Question
from libraries.changing import ITEM, find
from libraries.errors import NotThere, Refused
from libraries.listening import ask_before_removal
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanError, ScanRequest
from libraries.names import to_bytes, to_display
from logbook.models import write_event

BATCH_ROWS = 5_000


class Unseen(Refused):
    """Its disk is away: it takes an admin's word (`even_if_unseen`) to remove the library all the same."""


def remove(library_id: int, *, actor: str, even_if_unseen: bool = False) -> None:
    """Take the library away. Its name and its folder are free at once.

    Refused while files of it are acted on, and while its trash holds anything. Where its disk is away nobody can say
    so; `even_if_unseen` is an admin's word that it may go all the same.
    """
    library = LibraryRoot.objects.kept().filter(pk=library_id).first()
    if library is None:
        raise NotThere(_("There is no library %(id)s.") % {"id": library_id})
    asked = ask_before_removal(library_id, even_if_unseen=even_if_unseen)
    _refuse_trash(library, even_if_unseen=even_if_unseen)
    # Before the library is locked: a scan that writes holds its job's row and then wants the library's.
    _cancel_scan(library, actor)
    with transaction.atomic():
        library = find(library_id)
        if ask_before_removal(library_id, even_if_unseen=even_if_unseen) != asked:
            # It may have filled the trash that was just found empty.
            raise Refused(_("Files were acted on while its trash was looked at. Try again."))
        write_event(
            ITEM,
            str(library.pk),
            "removed",
            actor=actor,
            title=library.name,
            name=library.name,
            root_path=library.root_path,
        )
        _out_of_the_way(library)


def _out_of_the_way(library: LibraryRoot) -> None:
    LibraryRoot.objects.filter(pk=library.pk).update(
        name=f"{library.name[:200]} (removed {library.pk})",
        root_path=f"removed/{library.pk}",
        is_paused=True,
        scan_interval_minutes=0,
        scan_cron="",
        next_scan_at=None,
        removing_at=Now(),
        updated_at=Now(),
    )


def _cancel_scan(library: LibraryRoot, actor: str) -> None:
    from libraries import queueing

    request = queueing.current(library.pk)
    if request is not None:
        with suppress(Refused):  # it has just ended by itself
            queueing.cancel(request.pk, actor=actor)


# --- The trash --------------------------------------------------------------------------------------------
def _refuse_trash(library: LibraryRoot, *, even_if_unseen: bool) -> None:
    """Look where a trash can be: at the root and at every filesystem that was ever seen inside."""
    state = LibraryState.objects.filter(library=library).first()
    remembered: dict[str, str] = state.filesystems if state else {}
    question = Question(to_bytes(library.root_path), trash=tuple(remembered))
    look = asking.ask({0: question})[0]
    name = to_display(library.name)
    if look is not None and look.trash_in:
        words = _("The trash of “%(name)s” holds files (in %(places)s). Empty it or undo first.")
        raise Refused(words % {"name": name, "places": ", ".join(map(_shown, look.trash_in))})
    unseen = _unseen(look, remembered)
    if unseen and not even_if_unseen:
        words = _(
            "Whether the trash of “%(name)s” holds files can't be seen: %(why)s. "
            "Bring the disk back, or remove the library even if its trash is unseen."
        )
        raise Unseen(words % {"name": name, "why": unseen})


def _unseen(look: Look | None, remembered: dict[str, str]) -> str | None:
    if look is None:
        return _("its disk does not answer")
    if look.problem:
        return look.problem
    now = look.filesystems or {}
    away = [folder for folder, name in remembered.items() if now.get(folder) != name]
    return _("another disk is mounted, or none, at %(place)s") % {"place": _shown(away[0])} if away else None


def _shown(folder: str) -> str:
    """A folder below a library; "" is the library's own."""
    return to_display(folder) or _("its folder")


# --- The rows ---------------------------------------------------------------------------------------------
def carry_on() -> int:
    """Let the rows of removed libraries go, batch by batch; return how many libraries are gone.

    Every consumer does this now and then. It may be killed anywhere, and two may do it at once: each batch is one
    transaction over rows that nobody needs.
    """
    gone = 0
    for library in LibraryRoot.objects.filter(removing_at__isnull=False):
        if _empty(library):
            gone += _delete_root(library)
    return gone


def _empty(library: LibraryRoot) -> bool:
    """Delete what hangs on the library; tell whether all of it is gone."""
    _cancel_scan(library, actor="removing")  # one that was submitted while the library was being removed
    parts: list[QuerySet[Any]] = [
        LibraryFile.objects.filter(library=library),
        ScanError.objects.filter(library=library),
        ScanRequest.objects.filter(library=library),
    ]
    for rows in parts:
        while _delete_batch(rows):
            reach("rows_removed")
            if stopping.is_requested():
                return False
    return True


def _delete_batch(rows: QuerySet[Any]) -> int:
    """So many rows in the order of the index that begins with the library: each batch costs the same.

    What points at them (thumbnails, digests of a switch) goes with them. On PostgreSQL rows that a hash job holds are
    left for later: waiting for them while holding others could lock both up.
    """
    with transaction.atomic():
        free = rows.order_by().select_for_update(skip_locked=True)
        keys = list(free.values_list("pk", flat=True)[:BATCH_ROWS])
        if keys:
            rows.model._default_manager.filter(pk__in=keys).delete()
    return len(keys)


def _delete_root(library: LibraryRoot) -> int:
    with transaction.atomic():
        deleted, _rows = LibraryRoot.objects.filter(pk=library.pk, removing_at__isnull=False).delete()
        if deleted:
            write_event(ITEM, str(library.pk), "rows_removed", actor="removing")
    reach("root_removed")
    return 1 if deleted else 0
