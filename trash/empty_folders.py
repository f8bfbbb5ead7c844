"""Folders that are empty after an act go with their files, where the plan says so.

Only folders out of which this act took a file, and those above them that become empty by it; never a library's root, a
place where something is mounted, or a protected folder. What a folder was like is recorded before it goes, so that
undoing makes it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from database.portions import portions
from database.routing import EXECUTOR
from jobs.working import Work
from libraries.names import to_bytes
from libraries.reading import open_folder
from libraries.small_files import has_storable_times
from trash import manifest, steps
from trash.checking_items import Folder, Ground
from trash.errors import ActFailed
from trash.folders import Trash
from trash.item_storing import recording
from trash.models import Act, RemovedFolder, TrashItem
from trash.refusing import Refusal

#: Folders of one transaction.
PORTION = 200
OpenTrash = Callable[[Folder], Trash]
Key = tuple[int, str]


class _Empty(NamedTuple):
    """A folder in which nothing is, and what it is like."""

    key: Key
    info: os.stat_result
    attributes: dict[str, str]


def remove_empty_folders(work: Work[Any], act: Act, open_trash: OpenTrash) -> int:
    """Take them away, the deepest first; return how many. Killed in between, the next run goes on."""
    waiting: dict[int, set[Key]] = {}
    for key in _emptied(act):
        waiting.setdefault(_depth(key), set()).add(key)
    count = 0
    while waiting:
        keys = sorted(waiting.pop(max(waiting)))
        for some in portions(keys, PORTION):
            work.check()
            work.advance(doing="looking for empty folders")
            with Ground((), lambda *_: False) as ground:
                for key in _remove(work, act, some, ground, open_trash):
                    count += 1
                    above = (key[0], key[1].rpartition("/")[0])
                    if above[1]:
                        waiting.setdefault(_depth(above), set()).add(above)
    return count


def _depth(key: Key) -> int:
    return key[1].count("/")


def _emptied(act: Act) -> Iterator[Key]:
    """Folders that lost a file, and those that an earlier run was about to take away."""
    gone = TrashItem.objects.using(EXECUTOR).filter(act=act, status__in=("trashed", "deleted"))
    rows = gone.exclude(plan_file__action="hardlink").order_by().values_list("library_id", "plan_file__folder")
    yield from (key for key in rows.distinct() if key[1])
    yield from RemovedFolder.objects.using(EXECUTOR).filter(act=act, is_back=False).values_list("library_id", "folder")


def _remove(work: Work[Any], act: Act, keys: Iterable[Key], ground: Ground, open_trash: OpenTrash) -> list[Key]:
    """Those of the folders that are gone afterwards."""
    recorded = set(RemovedFolder.objects.using(EXECUTOR).filter(act=act).values_list("library_id", "folder"))
    empty: list[_Empty] = []
    gone: list[Key] = []
    stay: list[Key] = []
    for key in keys:
        found = _look(key, ground)
        if found is not None:
            empty.append(found)
        elif key in recorded and _is_gone(key, ground):
            gone.append(key)  # by a run that was killed before it looked at the folder above
    new = [each for each in empty if each.key not in recorded]
    if new:
        with recording(work):
            RemovedFolder.objects.using(EXECUTOR).bulk_create(_row(act, each) for each in new)
        _note(new, ground, open_trash)
    for each in empty:
        (gone if _rmdir(each, ground) else stay).append(each.key)
    if stay:
        _take_back(work, act, stay)
    return gone


def _look(key: Key, ground: Ground) -> _Empty | None:
    """None where it has something in it, is not there, or may not go: also where its time could not be given back."""
    library_id, name = key
    try:
        library = ground.library(library_id)
        if name in library.place.filesystems or library.place.protects(f"{name}/x"):
            return None
        handle = open_folder(library.root, to_bytes(name))
    except (OSError, Refusal):
        return None
    try:
        info = os.fstat(handle)
        if not has_storable_times(info):
            return None
        with os.scandir(handle) as entries:
            if next(entries, None) is not None:
                return None
        return _Empty(key, info, manifest.attributes_of(handle))
    except OSError:
        return None
    finally:
        os.close(handle)


def _is_gone(key: Key, ground: Ground) -> bool:
    try:
        os.close(open_folder(ground.library(key[0]).root, to_bytes(key[1])))
    except FileNotFoundError:
        return True
    except (OSError, Refusal):
        pass
    return False


def _row(act: Act, empty: _Empty) -> RemovedFolder:
    info = empty.info
    return RemovedFolder(
        act=act,
        library_id=empty.key[0],
        folder=empty.key[1],
        mode=info.st_mode & 0o7777,
        uid=info.st_uid,
        gid=info.st_gid,
        mtime_ns=info.st_mtime_ns,
        attributes=empty.attributes,
    )


def _note(empty: list[_Empty], ground: Ground, open_trash: OpenTrash) -> None:
    """In the manifest, too, of the trash that their files went to."""
    by_trash: dict[Key, tuple[Folder, list[_Empty]]] = {}
    for each in empty:
        folder = ground.folder(*each.key, "FOLDER_GONE")
        by_trash.setdefault((each.key[0], folder.trash_folder), (folder, []))[1].append(each)
    for (_, start), (folder, some) in by_trash.items():
        skip = len(start) + 1 if start else 0
        lines = [manifest.folder_line(to_bytes(each.key[1][skip:]), each.info, each.attributes) for each in some]
        try:
            with open_trash(folder) as trash:
                trash.write_manifest(lines)
        except (OSError, Refusal) as error:
            raise ActFailed("NO_TRASH", f"Empty folders can't be noted in the trash, so they stay: {error}") from None


def _rmdir(empty: _Empty, ground: Ground) -> bool:
    """Only an empty one goes: whatever came into it meanwhile keeps it."""
    library_id, name = empty.key
    above, _, last = name.rpartition("/")
    try:
        parent = ground.folder(library_id, above, "FOLDER_GONE")
        steps.rmdir(to_bytes(last), dir_fd=parent.handle)
        steps.sync(parent.handle)
    except (OSError, Refusal):
        return False
    return True


def _take_back(work: Work[Any], act: Act, keys: list[Key]) -> None:
    """They were recorded and did not go: then there is nothing to make again."""
    with recording(work):
        for library_id, name in keys:
            rows = RemovedFolder.objects.using(EXECUTOR).filter(act=act, library_id=library_id, folder=name)
            rows.update(is_back=True)
