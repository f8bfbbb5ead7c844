"""What a manifest says of strays, so that undo by it alone brings these back, too."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from database.routing import EXECUTOR
from duplicates.facts import read_places
from libraries.names import to_bytes
from trash import manifest
from trash.folders import open_trash
from trash.models import Act, TrashItem
from trash.planned import Done
from trash.refusing import Refusal

logger = logging.getLogger(__name__)


def note_strays(act: Act, outcomes: Iterable[Done]) -> None:
    """Before they are recorded. By whoever else writes into the manifests of the act, so that no two lines meet.

    One that can't be noted is recorded all the same: with the database, undo needs no manifest."""
    strays = {done.item.id: done.stray for done in outcomes if done.stray is not None}
    if not strays:
        return
    places = read_places(EXECUTOR)
    rows = TrashItem.objects.using(EXECUTOR).filter(act=act, plan_file_id__in=strays).order_by("pk")
    for key, library, folder in rows.values_list("plan_file_id", "library_id", "trash_folder"):
        try:
            with open_trash(to_bytes(places[library].root_path), to_bytes(folder), act.key, is_made=False) as trash:
                trash.write_manifest([manifest.stray_line(key, strays[key])])
        except (OSError, Refusal, KeyError) as error:
            logger.warning("The manifest of %s does not tell that file %d is another one: %s", act, key, error)
