"""Real files that lie in a real trash, with the rows and the manifest that acting leaves.

photos = library_on(tmp_path / "photos", {"a.jpg": b"1", "old/a.jpg": b"1"})
act = trashed(planned())          # old/a.jpg lies in photos/.dedupfs-trash
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from blake3 import blake3
from django.db.models.functions import Now

from database.clock import SecondsFromNow
from duplicates.models import Plan, PlanFile, group_key
from jobs.executing import carry_out_here
from jobs.models import Job
from libraries import mounts
from libraries.models import LibraryFile, LibraryRoot, LibraryState
from libraries.names import to_bytes, to_text
from libraries.reading import open_folder, signed
from tests import factories
from tests.tree import tree
from trash import manifest, moving
from trash.authorising import ask_undo
from trash.folders import Trash, open_trash, trash_folder_of
from trash.models import Act, RemovedFolder, TrashItem
from trash.path_keys import path_key
from trash.proving import Found, open_name

DAY = 86_400


def library_on(root: Path, files: Mapping[str, bytes] | Mapping[bytes, bytes], name: str = "photos") -> LibraryRoot:
    """A library of real files, in the index as a scan that has read them leaves it."""
    tree(root, files)
    library = factories.library(name, to_text(os.fsencode(root)))
    LibraryState.objects.create(
        library=library, mount="present", is_writable=True, filesystems=mounts.filesystems(os.fsencode(root))
    )
    for path in files:
        index(library, os.fsencode(path))
    return library


def index(library: LibraryRoot, path: bytes) -> LibraryFile:
    whole = os.path.join(to_bytes(library.root_path), path)
    info = os.lstat(whole)
    with open(whole, "rb") as file:
        digest = blake3(file.read()).digest()
    return LibraryFile.objects.create(
        library=library,
        relative_path=to_text(path),
        size_bytes=info.st_size,
        mtime_ns=info.st_mtime_ns,
        ctime_ns=info.st_ctime_ns,
        inode=signed(info.st_ino),
        device=signed(info.st_dev),
        nlink=info.st_nlink,
        hash_algorithm="blake3",
        content_hash=digest,
        hashed_size_bytes=info.st_size,
        hashed_mtime_ns=info.st_mtime_ns,
        needs_hash=False,
    )


def trashed(plan: Plan, *, days_ago: int = 0) -> Act:
    """Carry the plan out, by the disk core alone: what goes lies in its trash afterwards."""
    files = list(
        PlanFile.objects.filter(plan=plan, role="remove", is_out=False).select_related("keeper").order_by("pk")
    )
    Plan.objects.filter(pk=plan.pk).update(status="authorised")
    then = SecondsFromNow(-days_ago * DAY)
    act = Act.objects.create(plan=plan, authorised_by="ada", status="running", authorised_at=then, starts_at=then)
    act.refresh_from_db()
    with ExitStack() as stack:
        for file in files:
            _trash(act, file, then, stack)
    size = sum(file.size_bytes for file in files)
    Act.objects.filter(pk=act.pk).update(
        status="completed",
        finished_at=Now(),
        file_count=len(files),
        done_count=len(files),
        trashed_count=len(files),
        trashed_bytes=size,
    )
    Plan.objects.filter(pk=plan.pk).update(status="done")
    act.refresh_from_db()
    return act


def _trash(act: Act, file: PlanFile, then: Any, stack: ExitStack) -> None:
    root = to_bytes(LibraryRoot.objects.get(pk=file.library_id).root_path)
    filesystems = LibraryState.objects.get(pk=file.library_id).filesystems
    trash_folder = trash_folder_of(file.relative_path, filesystems)
    path = to_bytes(file.relative_path)
    above, _, name = path.rpartition(b"/")
    folder = open_folder(root, above)
    stack.callback(os.close, folder)
    trash_name = str(file.pk).encode()
    with open_trash(root, to_bytes(trash_folder), act.key, is_made=True) as trash:
        handle = open_name(folder, name)
        stack.callback(os.close, handle)
        own = Found(handle, os.fstat(handle))
        _note(act, trash, trash_name, path[len(to_bytes(trash_folder)) + 1 :] if trash_folder else path, own, file)
        linked = None
        if file.action == "hardlink":
            linked = _link(file, moving.Place(folder, name), own, trash, trash_name, stack)
        else:
            moving.to_trash(moving.Place(folder, name), trash, trash_name, lambda: None)
    TrashItem.objects.create(
        act=act,
        plan_file=file,
        status="trashed",
        library_id=file.library_id,
        path_key=path_key(path),
        trash_folder=trash_folder,
        device=signed(own.info.st_dev),
        inode=signed(own.info.st_ino),
        linked_inode=linked and signed(linked.st_ino),
        acted_at=then,
    )
    rows = LibraryFile.objects.filter(pk=file.file_id)
    if linked is None:
        rows.update(is_missing=True)
    else:
        new = {"inode": signed(linked.st_ino), "ctime_ns": linked.st_ctime_ns, "nlink": linked.st_nlink}
        rows.update(mtime_ns=linked.st_mtime_ns, hashed_mtime_ns=linked.st_mtime_ns, **new)


def _note(act: Act, trash: Trash, name: bytes, path: bytes, own: Found, file: PlanFile) -> None:
    lines = []
    if next(trash.read_manifest(), None) is None:
        lines.append(
            manifest.head_line(key=act.key, plan=act.plan_id, approved_by="ada", approved_at="then", library="photos")
        )
    lines.append(
        manifest.item_line(
            int(name),
            path,
            to_text(path),
            own.info,
            digest=group_key(file.hash_algorithm, file.content_hash),
            action=str(file.action),
            keeper=file.keeper.relative_path if file.keeper else "",
            attributes=manifest.attributes_of(own.handle),
        )
    )
    trash.write_manifest(lines)


def _link(
    file: PlanFile, place: moving.Place, own: Found, trash: Trash, trash_name: bytes, stack: ExitStack
) -> os.stat_result:
    assert file.keeper is not None
    root = to_bytes(LibraryRoot.objects.get(pk=file.keeper.library_id).root_path)
    above, _, name = to_bytes(file.keeper.relative_path).rpartition(b"/")
    folder = open_folder(root, above)
    stack.callback(os.close, folder)
    keeper_info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    moving.link_over(place, own.info, moving.Place(folder, name), keeper_info, trash, trash_name)
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def remove_empty_folders(act: Act) -> None:
    """Take the folders away that it left empty, and remember what they were like."""
    for item in TrashItem.objects.filter(act=act).select_related("plan_file", "library"):
        folder = item.plan_file.folder
        whole = Path(os.fsdecode(os.path.join(to_bytes(item.library.root_path), to_bytes(folder))))
        if not folder or not whole.is_dir() or any(whole.iterdir()):
            continue
        info = whole.stat()
        attributes = {name.encode().hex(): os.getxattr(whole, name).hex() for name in os.listxattr(whole)}
        with open_trash(to_bytes(item.library.root_path), to_bytes(item.trash_folder), act.key, is_made=True) as trash:
            below = folder[len(item.trash_folder) + 1 :] if item.trash_folder else folder
            trash.write_manifest([manifest.folder_line(to_bytes(below), info, attributes)])
        RemovedFolder.objects.create(
            act=act,
            library_id=item.library_id,
            folder=folder,
            mode=info.st_mode & 0o7777,
            uid=info.st_uid,
            gid=info.st_gid,
            mtime_ns=info.st_mtime_ns,
            attributes=attributes,
        )
        whole.rmdir()


# --- Out again --------------------------------------------------------------------------------------------
def carried_out(act: Act) -> Act:
    """Let this process carry the act out, as a consumer does."""
    Job.objects.filter(pk=act.job_id).update(retry_after=None)
    lease = Job.objects.filter(pk=act.job_id).claim("test")
    assert lease is not None
    carry_out_here("jobs", lease)
    act.refresh_from_db()
    return act


def undone(**selection: Any) -> Act:
    return carried_out(ask_undo(selection, actor="otto"))


def item_at(path: str) -> TrashItem:
    return TrashItem.objects.select_related("plan_file", "act").get(plan_file__relative_path=path)


def trash_of(root: Path) -> Path:
    return root / ".dedupfs-trash"
