"""Into the trash and out of it. Each verb either did its whole work or left everything as it was, and looks again
afterwards: the name may have become another file between the proof and the move.

Whoever calls holds the lock, has written down what is intended, and syncs the folders before writing what was done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from libraries.excluding import LINK_ENDING
from libraries.reading import open_file
from trash import steps
from trash.folders import TrashFiles, info_of
from trash.proving import Found, Looks, is_same_file, is_unchanged, open_path
from trash.refusing import Refusal, Stranded, refused

#: How a filesystem says that it knows no hard links, or not of this file.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EMLINK})
_ONE_WAY = (
    "Its filesystem can neither rename a file without replacing another nor make a hard link of it, so it could not be"
    " brought back from a trash there. Nothing was done."
)
#: What a path may have at most when it is handed to the kernel whole.
PATH_BYTES = 4000


class Place(NamedTuple):
    """A name in a folder that is open."""

    folder: int
    name: bytes


def still_there(root: bytes, path: bytes, info: Looks, *, is_own_disk: bool = False) -> None:
    """Raise unless the file that stays is still found by its path. That is looked up anew, whole: its folder may have
    been moved away since it was opened. And it is opened, unless only this machine writes to its disk: a mount that
    caches may answer from memory what a name is, but asks its server before it opens one."""
    try:
        now = _looked_up(root, path, is_opened=not is_own_disk)
    except OSError as error:
        raise refused(error, gone="KEEPER_GONE", what="The file that stays") from None
    if not is_unchanged(now, info):
        raise Refusal("KEEPER_CHANGED", "The file that stays became another one in the last moment.")


def _looked_up(root: bytes, path: bytes, *, is_opened: bool) -> os.stat_result:
    whole = root + b"/" + path
    is_short = len(whole) <= PATH_BYTES
    if is_short and not is_opened:
        return os.lstat(whole)
    handle = open_path(whole) if is_short else open_file(root, path)
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


# --- Moving -----------------------------------------------------------------------------------------------
def to_trash(victim: Place, trash: TrashFiles, trash_name: bytes, look_again: Callable[[], None]) -> None:
    """Move the file that was proved, and look again after that (`look_after_move`). Raises `Refusal` where it is not
    done, `Stranded` where something lies in the trash that should not and can't be moved back."""
    try:
        _rename_into(victim, trash, trash_name)
    except OSError as error:
        raise refused(error, gone="VICTIM_GONE") from None
    try:
        look_again()
    except Refusal as reason:
        _bring_back(trash, trash_name, victim, reason)
        raise


def _rename_into(victim: Place, trash: TrashFiles, trash_name: bytes) -> None:
    try:
        steps.rename_new(victim.name, trash_name, src_fd=victim.folder, dst_fd=trash.files)
    except steps.NotKnownHere:
        # Nobody else writes into the trash while the lock is held, so looking before is as good.
        if trash.info(trash_name) is not None:
            raise FileExistsError(errno.EEXIST, "its name in the trash is taken") from None
        _refuse_one_way(victim, trash, trash_name)
        steps.rename_over(victim.name, trash_name, src_fd=victim.folder, dst_fd=trash.files)


def _refuse_one_way(victim: Place, trash: TrashFiles, trash_name: bytes) -> None:
    """Where nothing can be renamed without replacing, a file comes back by a link (`_move_out`), so one that can't be
    linked would never come back. Tried with the file itself: links of other people's files may be forbidden. It goes in
    by a rename all the same: to unlink its name could hit a new version that was saved under it since."""
    try:
        steps.link(victim.name, trash_name, src_fd=victim.folder, dst_fd=trash.files)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise Refusal("NO_TRASH", _ONE_WAY) from None
    _drop_spare(trash_name, trash.files)


def look_after_move(
    trash: TrashFiles,
    trash_name: bytes,
    info: Looks,
    root: bytes,
    keeper: bytes,
    keeper_info: Looks,
    *,
    is_own_disk: bool = False,
) -> None:
    """Raise where it was another file than the proved one that was moved, or the one that stays is not there."""
    refuse_moved_other(trash, trash_name, info)
    still_there(root, keeper, keeper_info, is_own_disk=is_own_disk)


def refuse_moved_other(trash: TrashFiles, trash_name: bytes, info: Looks) -> None:
    moved = trash.info(trash_name)
    if moved is None or not is_unchanged(moved, info):
        raise Refusal("VICTIM_CHANGED", "The file became another one in the last moment.")


def _bring_back(trash: TrashFiles, trash_name: bytes, place: Place, reason: Refusal) -> None:
    try:
        put_back(trash, trash_name, place)
    except Refusal as taken:
        raise Stranded(
            reason.code, f"{reason.message} It lies in the trash and could not be moved back: {taken.message}"
        ) from None


def put_back(trash: TrashFiles, trash_name: bytes, place: Place) -> None:
    """Move a file out of the trash to where nothing is: it never replaces anything. Raises `Refusal`."""
    try:
        _move_out(trash, trash_name, place)
    except FileExistsError:
        raise Refusal("PLACE_TAKEN", "Something else has its name by now; it stays in the trash.") from None
    except OSError as error:
        raise refused(error, gone="TRASH_GONE", what="The file in the trash") from None


def _move_out(trash: TrashFiles, trash_name: bytes, place: Place) -> None:
    try:
        steps.rename_new(trash_name, place.name, src_fd=trash.files, dst_fd=place.folder)
    except steps.NotKnownHere:
        steps.link(trash_name, place.name, src_fd=trash.files, dst_fd=place.folder)
        steps.unlink(trash_name, dir_fd=trash.files)


# --- Hard links -------------------------------------------------------------------------------------------
def link_over(
    victim: Place,
    info: os.stat_result,
    keeper: Place,
    keeper_info: os.stat_result,
    trash: TrashFiles,
    trash_name: bytes,
) -> None:
    """Let the name be one more link of the file that stays; its own inode lies in the trash then. The name is there at
    every moment. Raises `Refusal` where nothing was done."""
    try:
        steps.link(keeper.name, trash_name, src_fd=keeper.folder, dst_fd=trash.files)
    except OSError as error:
        raise refused(error, gone="KEEPER_GONE", what="The file that stays") from None
    made = trash.info(trash_name)
    if made is None or not is_unchanged(made, keeper_info):
        _drop_spare(trash_name, trash.files)
        raise Refusal("KEEPER_CHANGED", "The file that stays became another one in the last moment.")
    try:
        _exchange(victim, info, trash, trash_name)
    except OSError as error:
        _drop_spare(trash_name, trash.files)
        raise refused(error, gone="VICTIM_GONE") from None


def _exchange(victim: Place, info: os.stat_result, trash: TrashFiles, trash_name: bytes) -> None:
    """The link that waits in the trash and the file change places; where it was another file, they change back."""
    try:
        steps.exchange(trash_name, victim.name, src_fd=trash.files, dst_fd=victim.folder)
    except steps.NotKnownHere:
        _link_beside(victim, info, trash, trash_name)
        return
    moved = trash.info(trash_name)
    if moved is None or not is_unchanged(moved, info):
        steps.exchange(trash_name, victim.name, src_fd=trash.files, dst_fd=victim.folder)
        _drop_spare(trash_name, trash.files)
        raise Refusal("VICTIM_CHANGED", "The file became another one in the last moment.")


def temporary_name(trash_name: bytes) -> bytes:
    """Beside the victim, for a moment, where two names can't be exchanged. Scans never index it."""
    return b"." + trash_name + LINK_ENDING.encode()


def _link_beside(victim: Place, info: os.stat_result, trash: TrashFiles, trash_name: bytes) -> None:
    """The same in more steps: the link goes beside the victim, the victim's inode into the trash, and then the link is
    renamed over the victim's name."""
    beside = temporary_name(trash_name)
    _drop_spare(beside, victim.folder)
    steps.link(trash_name, beside, src_fd=trash.files, dst_fd=victim.folder)
    steps.unlink(trash_name, dir_fd=trash.files)
    try:
        steps.link(victim.name, trash_name, src_fd=victim.folder, dst_fd=trash.files)
    except OSError:
        _drop_spare(beside, victim.folder)
        raise
    now = info_of(victim.name, dir_fd=victim.folder)
    kept = trash.info(trash_name)
    if now is None or kept is None or not (is_unchanged(now, info) and is_unchanged(kept, info)):
        _drop_spare(beside, victim.folder)
        _drop_spare(trash_name, trash.files)
        raise Refusal("VICTIM_CHANGED", "The file became another one in the last moment.")
    steps.rename_over(beside, victim.name, src_fd=victim.folder, dst_fd=victim.folder)


def unlink_over(place: Place, linked: Found, trash: TrashFiles, trash_name: bytes) -> None:
    """Undo a hard link: the name gets its own inode back. `linked` is what has the name, open, and was found to have
    the same bytes as the file in the trash: so nothing is lost with it. Raises `Refusal`."""
    _take_links_place(place, linked, trash, trash_name, is_copy=True)


def give_name_back(place: Place, linked: Found, trash: TrashFiles, trash_name: bytes) -> None:
    """A link took the place of another file than the one that was proved: that one gets its name back. Its bytes are
    not those of `linked`, so that goes only where it has another name: a last one is kept in the trash (`Stranded`).
    Raises `Refusal`."""
    _take_links_place(place, linked, trash, trash_name, is_copy=False)


def _take_links_place(place: Place, linked: Found, trash: TrashFiles, trash_name: bytes, *, is_copy: bool) -> None:
    if trash.info(trash_name) is None:
        raise Refusal("TRASH_GONE", "The file in the trash is not there any more.")
    try:
        _exchange_back(place, linked.info, trash, trash_name, is_copy=is_copy)
    except OSError as error:
        raise refused(error, gone="PLACE_TAKEN") from None


def _exchange_back(
    place: Place, linked: os.stat_result, trash: TrashFiles, trash_name: bytes, *, is_copy: bool
) -> None:
    try:
        steps.exchange(trash_name, place.name, src_fd=trash.files, dst_fd=place.folder)
    except steps.NotKnownHere:
        _rename_back(place, linked, trash, trash_name, is_copy=is_copy)
        return
    out = trash.info(trash_name)
    if out is None or not is_unchanged(out, linked):
        steps.exchange(trash_name, place.name, src_fd=trash.files, dst_fd=place.folder)
        raise Refusal("PLACE_TAKEN", "Something else has its name by now; it stays in the trash.")
    if not is_copy and out.st_nlink < 2:
        raise Stranded(
            "VICTIM_CHANGED",
            "It was changed in the last moment and has its name again; the file that was to stay was deleted meanwhile,"
            " and its last name is kept in the trash.",
        )
    steps.unlink(trash_name, dir_fd=trash.files)


def _rename_back(place: Place, linked: os.stat_result, trash: TrashFiles, trash_name: bytes, *, is_copy: bool) -> None:
    beside = temporary_name(trash_name)
    _drop_spare(beside, place.folder)
    steps.link(trash_name, beside, src_fd=trash.files, dst_fd=place.folder)
    now = info_of(place.name, dir_fd=place.folder)
    if now is None or not is_unchanged(now, linked):
        _drop_spare(beside, place.folder)
        raise Refusal("PLACE_TAKEN", "Something else has its name by now; it stays in the trash.")
    if not is_copy and now.st_nlink < 2:
        _drop_spare(beside, place.folder)
        raise Stranded(
            "VICTIM_CHANGED",
            "It was changed in the last moment and lies in the trash; its place is the last name of the file that was"
            " to stay.",
        )
    steps.rename_over(beside, place.name, src_fd=place.folder, dst_fd=place.folder)
    steps.unlink(trash_name, dir_fd=trash.files)


def _drop_spare(name: bytes, folder: int) -> None:
    """Take away a name that we made, if what it names has another one: somebody may have taken that away meanwhile."""
    found = info_of(name, dir_fd=folder)
    if found is None:
        return
    if found.st_nlink < 2:
        raise Stranded("VICTIM_CHANGED", "It changed in the last moment; what it was then is kept in the trash.")
    steps.unlink(name, dir_fd=folder)


# --- After a crash ----------------------------------------------------------------------------------------
class Seen(NamedTuple):
    """What the disk says of one file: at its place, and in the trash."""

    at_place: os.stat_result | None
    in_trash: os.stat_result | None


def look(place: Place | None, trash: TrashFiles | None, trash_name: bytes) -> Seen:
    """`place` is None where its folder is gone, `trash` where the act has none there."""
    return Seen(info_of(place.name, dir_fd=place.folder) if place else None, trash.info(trash_name) if trash else None)


def clear_half_link(place: Place, trash: TrashFiles, trash_name: bytes) -> None:
    """A link that was begun and not made: the victim has its name, and what we made meanwhile goes. A name in the trash
    goes only where its file has another one."""
    beside = temporary_name(trash_name)
    with suppress(Stranded):
        _drop_spare(beside, place.folder)
    with suppress(Stranded):
        _drop_spare(trash_name, trash.files)


def is_linked(seen: Seen, victim_inode: int) -> bool:
    """Whether a link has taken the victim's place: its inode is in the trash, and another has its name."""
    return (
        seen.in_trash is not None
        and seen.in_trash.st_ino == victim_inode
        and seen.at_place is not None
        and not is_same_file(seen.at_place, seen.in_trash)
    )
