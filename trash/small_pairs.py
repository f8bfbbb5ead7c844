"""Pairs of small files proved in one call, where `small_pairs.c` was compiled. Elsewhere, and wherever anything is not
just as planned, they are proved step by step (`trash.proving`). Knows nothing of Django."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, Self

from libraries import native
from libraries.buffers import BUFFER_BYTES, Buffers
from libraries.reading import hasher
from trash.open_folders import OpenFolder
from trash.planned import Kept, Planned

VERSION = 3
#: Size; of the file that goes, and of the one that stays: folder, inode, mtime, when it would be young, device,
#: descriptor, ctime; whether the one that stays was read.
_PAIR = struct.Struct("=q 4qQ2q 4qQ2q q")
_NUMBER = struct.Struct("=q")
#: What follows is of the file that stayed last.
_LAST_BYTES = 40
_NEVER = (1 << 63) - 1


class Looked(NamedTuple):
    """What a file was like when it was proved; called as `os.stat_result` calls it."""

    st_ino: int
    st_dev: int
    st_size: int
    st_mtime_ns: int

    @classmethod
    def of(cls, file: Planned | Kept, folder: OpenFolder) -> Self:
        return cls((file.inode or 0) % (1 << 64), folder.device, file.size, file.mtime_ns)


class SmallPairs:
    """One pair after the other. A file that stays is read and hashed once for all that go because of it, as long as
    nobody changes it meanwhile."""

    def __init__(self, built: Any) -> None:
        import ctypes

        address, name = ctypes.c_void_p, ctypes.c_char_p
        self._prove, self._has_moved = built.dedupfs_prove_pair, built.dedupfs_has_moved
        self._prove.argtypes = (address, name, name, address, address)
        self._has_moved.argtypes = (address, ctypes.c_int, name, name)
        self._is_still_proved = built.dedupfs_is_still_proved
        self._is_still_proved.argtypes = (address,)
        self._stays_untouched = built.dedupfs_stays_untouched
        self._stays_untouched.argtypes = (address,)
        self._close = built.dedupfs_close_pair
        self._close.argtypes, self._close.restype = (address,), None
        self._pair = ctypes.create_string_buffer(_PAIR.size + _LAST_BYTES)
        _NUMBER.pack_into(self._pair, _PAIR.size, -1)  # none yet
        buffers = Buffers()
        self._rooms = [ctypes.byref(ctypes.c_char.from_buffer(each)) for each in (buffers.first, buffers.second)]
        self._content = buffers.second
        #: Of the file that stayed last, and by which algorithm.
        self._digest, self._algorithm = b"", ""
        self._is_open = False
        #: For the last pair.
        self.bytes_read = 0

    def are_proved(
        self, item: Planned, folder: OpenFolder, name: bytes, keeper_folder: OpenFolder, keeper_name: bytes
    ) -> bool:
        """Whether everything is as planned, at this moment; then both files are open. Inodes have to be known."""
        assert item.size < BUFFER_BYTES
        keeper, young, keeper_young = item.keeper, folder.library.young_after_ns, keeper_folder.library.young_after_ns
        _PAIR.pack_into(
            self._pair, 0,
            item.size,
            folder.handle, item.inode, item.mtime_ns, _NEVER if young is None else young,
            folder.device, -1, 0,
            keeper_folder.handle, keeper.inode, keeper.mtime_ns, _NEVER if keeper_young is None else keeper_young,
            keeper_folder.device, -1, 0,
            0,
        )  # fmt: skip
        if not self._prove(self._pair, name, keeper_name, *self._rooms):
            return False
        self._is_open = True
        is_read = _NUMBER.unpack_from(self._pair, _PAIR.size - _NUMBER.size)[0]
        self.bytes_read = 2 * item.size if is_read else item.size
        try:
            if is_read or item.algorithm != self._algorithm:
                self._algorithm = ""  # of nothing, should it fail
                self._digest = hasher(item.algorithm)(self._content[: item.size]).digest()
                self._algorithm = item.algorithm
        except BaseException:
            self.close()
            raise
        if self._digest == item.digest:
            return True
        self.close()
        return False

    def are_still_proved(self) -> bool:
        """Whether neither was changed since. Ask right before the move: after the proof there may have been a wait."""
        return bool(self._is_still_proved(self._pair))

    def has_moved(self, trash: int, trash_name: bytes, keeper_path: bytes) -> bool:
        """Whether the file that was proved has that name in the trash, and the other one is found by its path still, as
        it was proved."""
        if not self._has_moved(self._pair, trash, trash_name, keeper_path):
            return False
        self._is_open = False
        return True

    def stays_untouched(self) -> bool:
        """Whether nobody has changed the file that stays since it was proved; after the move, too."""
        return bool(self._stays_untouched(self._pair))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._close(self._pair)


def small_pairs() -> SmallPairs | None:
    """None where nobody could compile it."""
    built = native.library("small_pairs", VERSION)
    return SmallPairs(built) if built else None
