"""One file of a plan: proved and acted on at once. Everything that may be known before was looked at before
(`trash.preparing`); what is looked at here is what may have changed since. Knows nothing of Django, so that a process
of its own can do it (`trash.hand_process`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from database.crash_points import reach
from libraries.names import to_bytes
from libraries.reading import Reader, signed
from trash import moving, steps
from trash.folders import TrashFiles
from trash.moving import Place
from trash.open_folders import OpenFolder, OpenFolders
from trash.planned import DELETE, DELETED, HARDLINK, SKIPPED, TRASHED, Done, Linked, Planned
from trash.proving import (
    SMALL_BYTES,
    Found,
    Prover,
    keeper_touched,
    metadata_differs,
    open_wanted,
    refuse_keeper_touched,
    refuse_touched,
)
from trash.refusing import Refusal, Stranded, refused
from trash.small_pairs import Looked, small_pairs
from trash.strays import with_stray


class Provers:
    """One for each algorithm, with one pair of buffers; `report` is told of the bytes as they are read."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self.report, self._reader = report, Reader()
        self._provers: dict[str, Prover] = {}
        self.small_pairs = small_pairs()

    def of(self, algorithm: str) -> Prover:
        if algorithm not in self._provers:
            self._provers[algorithm] = Prover(algorithm, self.report, self._reader)
        return self._provers[algorithm]


class FileActing:
    """What a batch does to each of its files. `ask` is called between the proof and the move: it raises where nothing
    may be done any more. `touched` collects the inodes whose ctime we changed."""

    def __init__(
        self,
        folders: OpenFolders[Any],
        provers: Provers,
        ask: Callable[[Planned], None],
        touched: set[tuple[int, int]],
        *,
        links_despite_metadata: bool,
    ) -> None:
        self.folders, self.provers, self.ask, self.touched = folders, provers, ask, touched
        self.links_despite_metadata = links_despite_metadata

    def act_on(self, item: Planned, trash: TrashFiles) -> Done:
        try:
            return self._move_at_once(item, trash) or self._open_and_act(item, trash)
        except Stranded as reason:
            # It lies in the trash, whatever it is: from there it can be undone.
            return with_stray(Done(item, TRASHED, reason.code, reason.message), trash)
        except Refusal as reason:
            return Done(item, SKIPPED, reason.code, reason.message)

    # --- At once ------------------------------------------------------------------------------------------
    def _move_at_once(self, item: Planned, trash: TrashFiles) -> Done | None:
        """Nearly all there are: a small file that goes to the trash, and everything is as planned. None where anything
        is not, or may not be: then nothing was done, and what it is comes out step by step."""
        pairs, keeper = self.provers.small_pairs, item.keeper
        if pairs is None or item.action in (HARDLINK, DELETE) or item.inode is None or keeper.inode is None:
            return None
        if item.size > SMALL_BYTES or item.size != keeper.size:
            return None
        above, _, name = item.path.rpartition("/")
        keeper_above, _, keeper_name = keeper.path.rpartition("/")
        try:
            folder = self.folders.on_its_disk(item.library_id, above, "VICTIM_GONE")
            keeper_folder = self.folders.on_its_disk(keeper.library_id, keeper_above, "KEEPER_GONE")
        except Refusal:
            return None
        root, keeper_path = keeper_folder.library.root, to_bytes(keeper.path)
        whole = root + b"/" + keeper_path
        if not keeper_folder.is_own_disk or len(whole) > moving.PATH_BYTES:
            return None
        at = Place(folder.handle, to_bytes(name))
        if not pairs.are_proved(item, folder, at.name, keeper_folder, to_bytes(keeper_name)):
            return None
        trash_name = b"%d" % item.id

        def look_again() -> None:
            if not pairs.has_moved(trash.files, trash_name, whole):
                proved, stays = Looked.of(item, folder), Looked.of(keeper, keeper_folder)
                moving.look_after_move(trash, trash_name, proved, root, keeper_path, stays, is_own_disk=True)
                if not pairs.stays_untouched():
                    raise keeper_touched()

        try:
            self.provers.report(pairs.bytes_read)
            self.ask(item)
            reach("proved")
            # Either of these may have waited: for the budget, or for a word of whoever records the act.
            if not pairs.are_still_proved():
                return None
            self.folders.refuse_moved(folder)
            folder.is_touched = True
            moving.to_trash(at, trash, trash_name, look_again)
        finally:
            pairs.close()
        return Done(item, TRASHED)

    # --- Step by step -------------------------------------------------------------------------------------
    def _open_and_act(self, item: Planned, trash: TrashFiles) -> Done:
        above, _, name = item.path.rpartition("/")
        folder = self.folders.folder(item.library_id, above, "VICTIM_GONE")
        at = Place(folder.handle, to_bytes(name))
        victim = open_wanted(at.folder, at.name, item, "VICTIM")
        try:
            self.folders.refuse_young(folder, victim.info)
            self.folders.refuse_other_disk(folder, victim)
            return self._act_beside_keeper(item, folder, at, victim, trash)
        finally:
            os.close(victim.handle)

    def _act_beside_keeper(
        self, item: Planned, folder: OpenFolder, at: Place, victim: Found, trash: TrashFiles
    ) -> Done:
        keeper, folders = item.keeper, self.folders
        above, _, name = keeper.path.rpartition("/")
        keeper_folder = folders.folder(keeper.library_id, above, "KEEPER_GONE")
        keeper_at = Place(keeper_folder.handle, to_bytes(name))
        stays = open_wanted(keeper_at.folder, keeper_at.name, keeper, "KEEPER")
        try:
            folders.refuse_other_disk(keeper_folder, stays)
            folders.refuse_young(keeper_folder, stays.info)
            self._prove(item, victim, stays)
            self.folders.refuse_moved(folder, for_certain=item.action == DELETE)
            folder.is_touched = True
            if victim.info.st_nlink > 1:
                self.touched.add(_inode(victim))  # its other names have the new ctime, too
            trash_name = b"%d" % item.id
            if item.action == HARDLINK:
                self.touched.add(_inode(stays))
                moving.link_over(at, victim.info, keeper_at, stays.info, trash, trash_name)
                self.provers.of(item.algorithm).renew(stays)
                return Done(item, TRASHED, linked=Linked.of(os.fstat(stays.handle)))
            root, is_own_disk = keeper_folder.library.root, keeper_folder.is_own_disk

            def look_again() -> None:
                if item.action == DELETE:
                    self.provers.of(item.algorithm).prove_moved(victim, item.digest)
                moving.look_after_move(
                    trash, trash_name, victim.info, root, to_bytes(keeper.path), stays.info, is_own_disk=is_own_disk
                )
                refuse_keeper_touched(stays)

            moving.to_trash(at, trash, trash_name, look_again)
            return _delete(item, trash, trash_name) if item.action == DELETE else Done(item, TRASHED)
        finally:
            os.close(stays.handle)

    def _prove(self, item: Planned, victim: Found, stays: Found) -> None:
        keeps_metadata = item.action == HARDLINK and not self.links_despite_metadata
        if keeps_metadata and (what := metadata_differs(stays, victim)):
            raise Refusal("METADATA_DIFFERS", f"A link would lose its own metadata: {what} differs.")
        self.provers.of(item.algorithm).prove(stays, victim, item.digest)
        self.ask(item)
        reach("proved")
        # Once more: to ask may have taken a while.
        refuse_touched(stays, victim)


def _inode(file: Found) -> tuple[int, int]:
    return signed(file.info.st_dev), signed(file.info.st_ino)


def _delete(item: Planned, trash: TrashFiles, trash_name: bytes) -> Done:
    """It went the way of the trash, with all its checks; only then it goes for good."""
    try:
        steps.unlink(trash_name, dir_fd=trash.files)
    except OSError as error:
        reason = refused(error, gone="TRASH_GONE")
        return Done(item, TRASHED, reason.code, f"It lies in the trash and could not be removed: {reason.message}")
    return Done(item, DELETED)
