"""What was brought back by a manifest alone, written into the database where that knows of it."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from database.routing import EXECUTOR
from duplicates.facts import read_places
from libraries.names import to_bytes
from libraries.reading import open_file
from logbook.models import write_event
from trash.from_manifest import Told
from trash.item_storing import recording
from trash.left_storing import Left, store_outcomes
from trash.models import Act, TrashItem


def is_database_there() -> bool:
    """Whether there is one that can be asked; looking makes none."""
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        return False
    try:
        return "trash_items" in connection.introspection.table_names()
    except (DatabaseError, InterfaceError):
        return False


def mark_undone(key: str, told: list[Told], *, actor: str) -> int:
    """Write into the rows of the act that these files are back; how many it knew to be in the trash. Whoever calls
    holds the lock, and has synced what was done."""
    back = {int(each.name): each for each in told if each.is_undone}
    act = Act.objects.using(EXECUTOR).filter(key=key).first()
    if act is None or not back:
        return 0
    rows = TrashItem.objects.using(EXECUTOR).filter(act=act, status=TrashItem.Status.TRASHED)
    items = [item for item in rows.select_related("act", "plan_file__keeper") if item.plan_file_id in back]
    if not items:
        return 0
    places = read_places(EXECUTOR)
    lefts = []
    for item in items:
        item.left_by_id = None
        each, place = back[item.plan_file_id], places.get(item.library_id)
        is_seen = each.info is not None and place is not None and _leads_to(to_bytes(place.root_path), item, each.info)
        info = each.info if is_seen else None
        lefts.append(Left(item, TrashItem.Status.UNDONE, each.code, each.reason, info=info))
    with recording():
        keys = [item.pk for item in items]
        for start in range(0, len(keys), 500):
            some = TrashItem.objects.using(EXECUTOR).filter(pk__in=keys[start : start + 500])
            some.filter(status=TrashItem.Status.TRASHED).update(
                status=TrashItem.Status.UNDOING, left_by=None, reason_code="", reason=""
            )
        store_outcomes(lefts)
        write_event("acts", str(act.pk), "undone_by_manifest", actor=actor, using=EXECUTOR, files=len(items))
    return len(items)


def _leads_to(root: bytes, item: TrashItem, info: os.stat_result) -> bool:
    """Whether the library's own path leads to that file: the disk may be mounted elsewhere now."""
    try:
        handle = open_file(root, to_bytes(item.plan_file.relative_path))
    except OSError:
        return False
    try:
        found = os.fstat(handle)
        return (found.st_dev, found.st_ino) == (info.st_dev, info.st_ino)
    finally:
        os.close(handle)


def why_not_asked() -> str:
    """In words, for whoever wonders what the database knows now."""
    return f"The database was not asked: there is none that answers (state folder {settings.STATE_ROOT})."
