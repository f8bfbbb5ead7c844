"""Whether the database is older than the disk: then an approval in it may have been used already.

Every file is on record before it stands in a manifest, so a manifest that names a file of which the database knows
nothing was written under a newer database than this one: an old backup is in its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from database.routing import EXECUTOR
from trash.act_trashes import trash_places
from trash.errors import ActVoid
from trash.folders import Trash, open_trash
from trash.models import Act, TrashItem
from trash.refusing import Refusal

WORDS = (
    "The trash holds files of this act of which the database knows nothing: the database is older than what was done,"
    " probably restored from a backup. Nothing more is done. Scan, plan and authorise anew; what lies in the trash can"
    " be undone by its manifest (manage.py undo --from-manifest)."
)


def refuse_older_database(act: Act) -> None:
    """Raise `ActVoid` where a manifest of the act tells of more than the database."""
    known: set[int] | None = None
    for trash in _trashes(act):
        with trash:
            named = {line["item"] for line in trash.read_manifest() if isinstance(line.get("item"), int)}
        if named and known is None:
            rows = TrashItem.objects.using(EXECUTOR).filter(act=act)
            known = set(rows.values_list("plan_file_id", flat=True))
        if named - (known or set()):
            raise ActVoid("DATABASE_OLDER", WORDS)


def _trashes(act: Act) -> Iterator[Trash]:
    for root, folder in trash_places(act):
        try:
            yield open_trash(root, folder, act.key, is_made=False)
        except (OSError, Refusal):
            continue  # none there, or none that can be opened: then nothing is done there either
