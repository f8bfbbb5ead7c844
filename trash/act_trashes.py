"""Where an act may have put something: the trashes of the libraries that its plan takes files from."""

from __future__ import annotations

from collections.abc import Iterator

from database.routing import EXECUTOR
from duplicates.facts import read_places
from duplicates.models import PlanFile
from libraries.names import to_bytes
from trash.models import Act


def trash_places(act: Act) -> Iterator[tuple[bytes, bytes]]:
    """Root and folder of each: at the roots of the libraries, and where a filesystem begins inside."""
    places = read_places(EXECUTOR)
    files = PlanFile.objects.using(EXECUTOR).filter(plan=act.plan, role=PlanFile.Role.REMOVE)
    concerned = set(files.order_by().values_list("library_id", flat=True).distinct())
    for place in (places[key] for key in sorted(concerned & places.keys())):
        for folder in {"", *place.filesystems}:
            yield to_bytes(place.root_path), to_bytes(folder)
