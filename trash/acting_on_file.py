"""One file of a plan: proved and acted on at once. Everything that may be known before was looked at before
(`trash.acting`); what is looked at here is what may have changed since."""

from __future__ import annotations

import os
from collections.abc import Callable

from database.crash_points import reach
from duplicates.models import Action
from libraries.names import to_bytes
from libraries.reading import Reader, signed
from trash import moving, steps
from trash.checking_items import Folder, Ground
from trash.folders import Trash
from trash.item_storing import Done, Intent, Planned
from trash.models import TrashItem
from trash.moving import Place
from trash.proving import Found, Prover, metadata_differs, open_wanted
from trash.refusing import Refusal, Stranded, refused

SKIPPED, TRASHED, DELETED = (
    TrashItem.Status.SKIPPED.value,
    TrashItem.Status.TRASHED.value,
    TrashItem.Status.DELETED.value,
)
HARDLINK, DELETE = Action.HARDLINK.value, Action.DELETE.value


class Provers:
    """One for each algorithm, with one pair of buffers; `report` is told of the bytes as they are read."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report, self._reader = report, Reader()
        self._provers: dict[str, Prover] = {}

    def of(self, algorithm: str) -> Prover:
        if algorithm not in self._provers:
            self._provers[algorithm] = Prover(algorithm, self._report, self._reader)
        return self._provers[algorithm]


class FileActing:
    """What a batch does to each of its files. `ask` is called between the proof and the move: it raises where nothing
    may be done any more. `touched` collects the inodes whose ctime we changed."""

    def __init__(
        self,
        ground: Ground,
        provers: Provers,
        ask: Callable[[Planned, Folder], None],
        touched: set[tuple[int, int]],
        *,
        links_despite_metadata: bool,
    ) -> None:
        self.ground, self.provers, self.ask, self.touched = ground, provers, ask, touched
        self.links_despite_metadata = links_despite_metadata

    def act_on(self, intent: Intent, trash: Trash) -> Done:
        try:
            return self._open_and_act(intent, trash)
        except Stranded as reason:
            # It lies in the trash, whatever it is: from there it can be undone.
            return Done(intent.item, TRASHED, reason.code, reason.message)
        except Refusal as reason:
            return Done(intent.item, SKIPPED, reason.code, reason.message)

    def _open_and_act(self, intent: Intent, trash: Trash) -> Done:
        item, keeper = intent.item, intent.item.keeper
        folder = self.ground.folder(item.library_id, item.path.rpartition("/")[0], "VICTIM_GONE")
        at = Place(folder.handle, intent.name)
        victim = open_wanted(at.folder, at.name, item, "VICTIM")
        try:
            keeper_path = to_bytes(keeper.path)
            keeper_folder = self.ground.folder(keeper.library_id, keeper.path.rpartition("/")[0], "KEEPER_GONE")
            keeper_at = Place(keeper_folder.handle, keeper_path.rpartition(b"/")[2])
            stays = open_wanted(keeper_at.folder, keeper_at.name, keeper, "KEEPER")
            try:
                self.ground.refuse_other_disk(keeper_folder, stays)
                self.ground.refuse_young(keeper_folder, stays.info)
                self._prove(item, folder, victim, stays)
                folder.is_touched = True
                self.touched.add(_inode(victim))
                trash_name = b"%d" % item.id
                if item.action == HARDLINK:
                    self.touched.add(_inode(stays))
                    now = moving.link_over(at, victim.info, keeper_at, stays.info, trash, trash_name)
                    self.provers.of(item.algorithm).renew(stays)
                    return Done(item, TRASHED, linked=now)
                root = keeper_folder.library.root
                moving.to_trash(
                    at, victim.info, trash, trash_name, lambda: moving.still_there(root, keeper_path, stays.info)
                )
                return _delete(item, trash, trash_name) if item.action == DELETE else Done(item, TRASHED)
            finally:
                os.close(stays.handle)
        finally:
            os.close(victim.handle)

    def _prove(self, item: Planned, folder: Folder, victim: Found, stays: Found) -> None:
        self.ground.refuse_young(folder, victim.info)
        self.ground.refuse_other_disk(folder, victim)
        keeps_metadata = item.action == HARDLINK and not self.links_despite_metadata
        if keeps_metadata and (what := metadata_differs(stays, victim)):
            raise Refusal("METADATA_DIFFERS", f"A link would lose its own metadata: {what} differs.")
        self.provers.of(item.algorithm).prove(stays, victim, item.digest)
        self.ask(item, folder)
        reach("proved")


def _inode(file: Found) -> tuple[int, int]:
    return signed(file.info.st_dev), signed(file.info.st_ino)


def _delete(item: Planned, trash: Trash, trash_name: bytes) -> Done:
    """It went the way of the trash, with all its checks; only then it goes for good."""
    try:
        steps.unlink(trash_name, dir_fd=trash.files)
    except OSError as error:
        reason = refused(error, gone="TRASH_GONE")
        return Done(item, TRASHED, reason.code, f"It lies in the trash and could not be removed: {reason.message}")
    return Done(item, DELETED)
