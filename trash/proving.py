"""Proving, right before anything is done, that two files are what the plan says and have the same bytes.

Both are open from here on: what is compared, moved and looked at afterwards is one inode, whatever happens to its name.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from stat import S_IMODE, S_ISREG
from typing import NamedTuple, Protocol

from libraries.reading import Reader, hasher, signed, version_of
from trash.refusing import Refusal, refused

#: A keeper up to this size is kept in memory while its group is worked on.
SMALL_BYTES = 256 << 10
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOATIME", 0)
_OPEN_FOREIGN = _OPEN_FILE & ~getattr(os, "O_NOATIME", 0)
_NO_ATTRIBUTES = frozenset({errno.ENOTSUP, errno.ENOSYS})
_CALLED = {"KEEPER": "The file that stays", "VICTIM": "The file"}
Report = Callable[[int], None]


class Wanted(Protocol):
    """A file as the plan has it. `inode` is signed, as the column is; None where the scan knew none."""

    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def inode(self) -> int | None: ...


class Looks(Protocol):
    """What tells whether a file is still the same, with the same content; called as `os.stat_result` calls it."""

    @property
    def st_ino(self) -> int: ...
    @property
    def st_dev(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...


class Found(NamedTuple):
    """A file that is open, and what it was like when it was opened."""

    handle: int
    info: os.stat_result


def open_wanted(folder: int, name: bytes, wanted: Wanted, who: str) -> Found:
    """Open a file that must be the one the plan has; `who` is KEEPER or VICTIM. Raises `Refusal`."""
    try:
        handle = _open(name, folder)
    except OSError as error:
        raise refused(error, gone=f"{who}_GONE", what=_CALLED[who]) from None
    try:
        info = os.fstat(handle)
        if not S_ISREG(info.st_mode):
            raise Refusal("NOT_A_FILE", f"{_CALLED[who]} is no file any more.")
        refuse_changed(info, wanted, who)
    except BaseException:
        os.close(handle)
        raise
    return Found(handle, info)


def open_name(folder: int, name: bytes) -> int:
    """Nothing is waited for, no link is followed; the time of the last reading stays where we may say so."""
    return _open(name, folder)


def open_path(path: bytes) -> int:
    """The same by a whole path: only for a file of which it is known otherwise which one it has to be."""
    return _open(path, None)


def _open(name: bytes, folder: int | None) -> int:
    try:
        return os.open(name, _OPEN_FILE, dir_fd=folder)
    except PermissionError:
        return os.open(name, _OPEN_FOREIGN, dir_fd=folder)


def refuse_changed(info: os.stat_result, wanted: Wanted, who: str) -> None:
    inode = wanted.inode
    if inode is not None and info.st_ino != inode and signed(info.st_ino) != inode:
        raise Refusal(f"{who}_CHANGED", f"{_CALLED[who]} is another one than when the plan was made.")
    if info.st_size != wanted.size or info.st_mtime_ns != wanted.mtime_ns:
        raise Refusal(f"{who}_CHANGED", f"{_CALLED[who]} was changed since the plan was made.")


def is_same_file(one: Looks, other: Looks) -> bool:
    return one.st_ino == other.st_ino and one.st_dev == other.st_dev


def is_unchanged(one: Looks, other: Looks) -> bool:
    """Whether two looks found the same file with the same content. Its ctime may differ: a new name changes that."""
    return is_same_file(one, other) and one.st_size == other.st_size and one.st_mtime_ns == other.st_mtime_ns


def metadata_differs(one: Found, other: Found) -> str:
    """What a hard link would not keep of the file it takes the place of, in words; empty where all of it is equal."""
    if (one.info.st_uid, one.info.st_gid) != (other.info.st_uid, other.info.st_gid):
        return "the owner"
    if S_IMODE(one.info.st_mode) != S_IMODE(other.info.st_mode):
        return "the mode"
    if not _has_same_attributes(one.handle, other.handle):
        return "the extended attributes"
    return ""


def _has_same_attributes(one: int, other: int) -> bool:
    """What can't be read may differ."""
    try:
        return _attributes(one) == _attributes(other)
    except OSError:
        return False


def _attributes(handle: int) -> dict[str, bytes]:
    """None where the filesystem knows no such thing. Raises `OSError` where they can't be read."""
    try:
        return {name: os.getxattr(handle, name) for name in os.listxattr(handle)}
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise
        return {}


class Prover:
    """Compares files with the one that stays. That is read once for all that go because of it, as long as nobody
    changes it meanwhile; `report` is told of the bytes as they are read."""

    def __init__(self, algorithm: str, report: Report, reader: Reader | None = None) -> None:
        self.hasher, self.report, self.reader = hasher(algorithm), report, reader or Reader()
        self._version: tuple[int, ...] = ()
        self._content: bytes | None = None
        self._digest = b""

    def prove(self, keeper: Found, victim: Found, digest: bytes) -> None:
        """Raise `Refusal` unless both have exactly the bytes that the digest stands for, at this moment."""
        if is_same_file(keeper.info, victim.info):
            raise Refusal("SAME_FILE", "It is another name of the file that stays: nothing would come back.")
        if keeper.info.st_size != victim.info.st_size:
            raise Refusal("CONTENT_DIFFERS", "It differs from the file that stays.")
        try:
            self._prove(keeper, victim, digest)
        except OSError as error:
            raise refused(error, gone="UNREADABLE") from None
        refuse_touched(keeper, victim)

    def prove_moved(self, victim: Found, digest: bytes) -> None:
        """Raise `Refusal` unless a file that was proved and moved has these bytes still. The move itself gave it a new
        ctime, so a last change that kept size and mtime shows in nothing else."""
        found = Found(victim.handle, os.fstat(victim.handle))
        try:
            is_same = self.hash(victim.handle) == digest
        except OSError as error:
            raise refused(error, gone="UNREADABLE") from None
        if not is_same or _is_touched(found):
            raise Refusal("VICTIM_CHANGED", "It was changed in the last moment.")

    def renew(self, keeper: Found) -> None:
        """Our own new link changed the keeper's ctime: what is known of it still holds."""
        info = os.fstat(keeper.handle)
        if self._version and version_of(keeper.info) == self._version and is_unchanged(info, keeper.info):
            self._version = version_of(info)

    def _prove(self, keeper: Found, victim: Found, digest: bytes) -> None:
        version = version_of(keeper.info)
        is_known = version == self._version
        if keeper.info.st_size <= SMALL_BYTES:
            if not is_known:
                self._learn(version, _read_small(keeper, "KEEPER"))
            self._refuse_other(digest)
            content = _read_small(victim, "VICTIM")
            self.report(len(content) if is_known else 2 * len(content))
            if content != self._content:
                raise Refusal("CONTENT_DIFFERS", "It differs from the file that stays.")
        elif is_known:
            self._refuse_other(digest)
            if self.hash(victim.handle) != digest:
                raise Refusal("CONTENT_DIFFERS", "It differs from the file that stays.")
        else:
            self._compare(keeper, victim)
            self._refuse_other(digest)

    def _learn(self, version: tuple[int, ...], content: bytes) -> None:
        self._version, self._content = version, content
        self._digest = self.hasher(content).digest()

    def _compare(self, keeper: Found, victim: Found) -> None:
        """Both side by side; the keeper is hashed on the way."""
        self._version = ()
        buffers, make = self.reader.buffers, self.hasher()
        offset, size = 0, keeper.info.st_size
        while offset < size:
            length = os.preadv(keeper.handle, [buffers.first], offset)
            other = os.preadv(victim.handle, [buffers.second], offset)
            self.report(length + other)
            if length != other or not length:
                raise Refusal("CONTENT_DIFFERS", "One of the two became shorter or longer while they were compared.")
            if not buffers.are_equal(length):
                raise Refusal("CONTENT_DIFFERS", "It differs from the file that stays.")
            make.update(buffers.first[:length])
            offset += length
        self._version, self._content = version_of(keeper.info), None
        self._digest = bytes(make.digest())

    def _refuse_other(self, digest: bytes) -> None:
        if self._digest != digest:
            raise Refusal("DIGEST_DIFFERS", "The file that stays has other content than when the plan was made.")

    def hash(self, handle: int) -> bytes:
        """The digest of a whole file that is open."""
        make, offset = self.hasher(), 0
        while length := os.preadv(handle, [self.reader.buffer], offset):
            make.update(self.reader.buffer[:length])
            self.report(length)
            offset += length
        return bytes(make.digest())


def _read_small(file: Found, who: str) -> bytes:
    size = file.info.st_size
    # One byte more than there should be tells a file that grows.
    content = os.pread(file.handle, size + 1, 0)
    if len(content) != size:
        raise Refusal(f"{who}_CHANGED", "It changed while it was read.")
    return content


def refuse_touched(keeper: Found, victim: Found) -> None:
    """Raise `Refusal` where somebody changed one of them since it was opened."""
    _refuse_touched(keeper, "KEEPER")
    _refuse_touched(victim, "VICTIM")


def refuse_keeper_touched(keeper: Found) -> None:
    """The same of the one that stays, after the other one was moved: to move a file may take a while, too."""
    if _is_touched(keeper):
        raise keeper_touched()


def keeper_touched() -> Refusal:
    return Refusal("KEEPER_CHANGED", "The file that stays was changed in the last moment.")


def _refuse_touched(file: Found, who: str) -> None:
    if _is_touched(file):
        raise Refusal(f"{who}_CHANGED", "It changed while it was read.")


def _is_touched(file: Found) -> bool:
    # It is the same descriptor, so the same file.
    now, then = os.fstat(file.handle), file.info
    return now.st_ctime_ns != then.st_ctime_ns or now.st_mtime_ns != then.st_mtime_ns or now.st_size != then.st_size
