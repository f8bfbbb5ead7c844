"""The hand of an act: proves and moves the files of one batch after the other while the process that gives them keeps
the records. `python -m trash.hand_process FD`, with one end of a pair of sockets; it knows nothing of Django.

It moves nothing without a fresh word: whoever gives the files says again and again that they may go, after a look at
the claim, the switches and what people say; a word tells when that was. Without one the hand waits, and when the other
side is gone it ends. It holds descriptors of the locks, so these last until it has ended, too.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from libraries.messages import receive, send
from trash import open_folders, steps
from trash.acting_on_file import FileActing, Provers
from trash.folders import TrashFiles
from trash.hand_messages import MOST_HANDLES, planned, told
from trash.open_folders import OnDisk, OpenFolder, OpenFolders
from trash.planned import Planned
from trash.refusing import Refusal

#: A word that is older than this does not count any more.
FRESH_SECONDS = 1.0
#: Folders that are open at the same time, where so many descriptors are allowed, beside those of trashes and locks: one
#: that is closed before the batch ends has all that was done until then synced.
MOST_FOLDERS, OTHER_HANDLES = 2_000, 800
#: How often a new word is looked for, and how often the hand tells how far it is.
LOOK_SECONDS, TELL_SECONDS = 0.05, 0.2


class Left(Exception):
    """The batch is to be left where it is; what was done of it is told."""


class HandFolders(OpenFolders[OpenFolder]):
    def __init__(self, libraries: list[OnDisk], is_ours: Callable[[int, int], bool], most: int) -> None:
        super().__init__(is_ours, most)
        self._libraries = {library.id: library for library in libraries}

    def opened(self, library_id: int, name: str) -> OpenFolder:
        return OpenFolder(self._libraries[library_id], name)


class Hand:
    def __init__(self, end: socket.socket, most_folders: int) -> None:
        self.socket, self.end, self.most_folders = end, end.fileno(), most_folders
        self.provers = Provers(self._read)
        #: Inodes whose ctime this run changed.
        self.touched: set[tuple[int, int]] = set()
        #: Files of the batch to which nothing may be done any more, and why.
        self.refused: dict[int, tuple[str, str]] = {}
        self.word_of = self.looked_at = self.told_at = 0.0
        #: The file that is worked on, and how much was read for it.
        self.number, self.path, self.bytes_read = 0, "", 0
        #: Where files of the batch go to, and what holds the locks.
        self.trashes: list[TrashFiles] = []
        self.locks: list[int] = []

    def serve(self) -> None:
        while True:
            what, *rest = receive(self.end)
            if what == "handles":
                self._take_handles(*rest)
            elif what == "act":
                self._act(*rest)
            # Else a word, or a stop, that came when the batch had ended already.

    # --- A batch ------------------------------------------------------------------------------------------
    def _act(
        self, libraries: list[tuple[Any, ...]], links_despite_metadata: bool, items: list[tuple[Any, ...]]
    ) -> None:
        # Whatever was said before was said of another batch.
        self.word_of, self.refused = 0.0, {}
        outcomes: list[Any] = []
        with HandFolders([OnDisk(*each) for each in libraries], self._is_ours, self.most_folders) as folders:
            folders.sync_trashes = self._sync_trashes
            acting = FileActing(
                folders, self.provers, self._ask, self.touched, links_despite_metadata=links_despite_metadata
            )
            try:
                self._go_through(items, acting, outcomes)
            except Left:
                pass
            finally:
                folders.sync_touched()
        self._send("ended", outcomes)

    def _go_through(self, items: list[tuple[Any, ...]], acting: FileActing, outcomes: list[Any]) -> None:
        for self.number, (number, values, keeper) in enumerate(items):
            item = planned(values, keeper)
            self.path, self.bytes_read = item.path, 0
            outcomes.append(told(acting.act_on(item, self.trashes[number])))

    def _sync_trashes(self) -> None:
        for trash in self.trashes:
            steps.sync(trash.files)

    def _take_handles(self, trash_count: int, lock_count: int) -> None:
        """Descriptors that come behind the message. In portions: the kernel carries some hundred at a time."""
        found: list[int] = []
        while left := trash_count + lock_count - len(found):
            _, some, _, _ = socket.recv_fds(self.socket, 1, min(left, MOST_HANDLES))
            if len(some) != min(left, MOST_HANDLES):
                raise EOFError("the other side is gone, or this process may have no more descriptors")
            found += some
        # The new ones are of the same locks, so these are held all the time.
        for handle in [*(trash.files for trash in self.trashes), *self.locks]:
            os.close(handle)
        self.trashes, self.locks = [TrashFiles(handle) for handle in found[:trash_count]], found[trash_count:]

    # --- Words --------------------------------------------------------------------------------------------
    def _ask(self, item: Planned) -> None:
        """Between the proof of a file and its move."""
        self._heed()
        if item.id in self.refused:
            raise Refusal(*self.refused[item.id])

    def _read(self, amount: int) -> None:
        """A large file is read for minutes."""
        self.bytes_read += amount
        self._heed()

    def _heed(self) -> None:
        now = time.monotonic()
        if now - self.looked_at < LOOK_SECONDS and now - self.word_of <= FRESH_SECONDS:
            return
        self.looked_at = now
        while select.select([self.end], [], [], 0)[0]:
            self._take(receive(self.end))
        if now - self.told_at >= TELL_SECONDS:
            self.told_at = now
            self._send("told", self.number, self.path, self.bytes_read)
        while time.monotonic() - self.word_of > FRESH_SECONDS:
            self._take(receive(self.end))

    def _send(self, *message: Any) -> None:
        try:
            send(self.end, message)
        except BrokenPipeError:
            # No error of the disk, as whoever proves files would take it.
            raise EOFError("the other side is gone") from None

    def _take(self, message: tuple[Any, ...]) -> None:
        what, *rest = message
        if what == "word":
            (self.word_of,) = rest
        elif what == "refuse":
            (self.refused,) = rest
        elif what == "stop":
            raise Left

    def _is_ours(self, device: int, inode: int) -> bool:
        """Whether the act touched an inode: in this run, or in an earlier one, of which only the records tell."""
        if (device, inode) in self.touched:
            return True
        self._send("ours", device, inode)
        while (message := receive(self.end))[0] != "ours":
            self._take(message)
        return bool(message[1])


def allow_many_folders() -> int:
    """How many folders may be open at the same time, with as many descriptors as this process may give itself."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FOLDERS + OTHER_HANDLES
    if now < wanted:
        now = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (now, most))
    return max(min(MOST_FOLDERS, now - OTHER_HANDLES), open_folders.MOST_FOLDERS)


def main(number: int) -> None:
    # Ctrl-C and a stop of the service reach the whole group: whoever gives the files decides when to end.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)
    # No value here refers to itself: there is nothing to look for.
    gc.disable()
    try:
        with socket.socket(fileno=number) as end:
            Hand(end, allow_many_folders()).serve()
    except EOFError:
        pass  # nobody is there any more
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
