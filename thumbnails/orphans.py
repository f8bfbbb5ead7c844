"""Pictures without a row, and temporary files whose writer died: they are found by looking through the root."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Iterator

from thumbnails import store
from thumbnails.models import Thumbnail
from thumbnails.store import Kept

logger = logging.getLogger(__name__)
#: What is younger may be about to get its row, or its name.
YOUNG_SECONDS = 3600
BATCH = 500
_left: list[str] = []


def find_orphans(shards: Iterable[str] | None = None) -> Iterator[Kept]:
    """What lies in the root for nobody: in some folders of its first level, or in all of them."""
    for shard in store.shards() if shards is None else shards:
        batch: list[Kept] = []
        for kept in store.listed(shard):
            if kept.mtime < time.time() - YOUNG_SECONDS:
                batch.append(kept)
            if len(batch) == BATCH:
                yield from _without_row(batch)
                batch = []
        yield from _without_row(batch)


def remove_orphans(shards: Iterable[str] | None = None) -> int:
    """Remove them, and empty folders on the way; return how many files went."""
    return sum(_remove(kept) for kept in find_orphans(shards))


def _remove(kept: Kept) -> bool:
    """One that can't be removed keeps no other from going."""
    try:
        return store.remove_kept(kept)
    except (OSError, store.OutsideRoot) as error:
        logger.warning("%s lies in the thumbnail root for nobody and can't be removed: %s", kept.relpath, error)
        return False


def remove_some() -> int:
    """The same for the next folder of the first level; consumers begin anywhere, so that several share the work."""
    if not _left:
        _left.extend(store.shards())
        random.shuffle(_left)
    return remove_orphans([_left.pop()]) if _left else 0


def _without_row(batch: list[Kept]) -> Iterator[Kept]:
    keys = [kept.key for kept in batch if kept.key is not None]
    known = set(Thumbnail.objects.filter(thumb_key__in=keys).values_list("thumb_key", flat=True)) if keys else set()
    yield from (kept for kept in batch if kept.key not in known)
