"""Trashes on the disk: one on each filesystem of a library, and in it one folder for each act.

    <library>/[<folder where another filesystem begins>/].dedupfs-trash/lock
                                                                       /<act>/manifest.jsonl
                                                                             /files/<number of the file in its plan>

Everything is opened from the folder above it and no link is followed, so swapping a folder for a link gains nothing.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from stat import S_IMODE
from typing import Any, NamedTuple, Protocol, Self

from libraries.excluding import TRASH, TRASH_LOCK
from libraries.reading import OPEN_FOLDER, open_folder
from trash import manifest, steps
from trash.refusing import Refusal

NAME, LOCK = TRASH.encode(), TRASH_LOCK.encode()
FILES = b"files"
MANIFEST = b"manifest.jsonl"
KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class Lockable(Protocol):
    """A trash that is open, by the folder that holds it and its own."""

    @property
    def mount(self) -> int: ...
    @property
    def top(self) -> int: ...


class Top(NamedTuple):
    mount: int
    top: int


class TrashFiles:
    """The files of one act in one trash, by their folder, which is open."""

    def __init__(self, files: int) -> None:
        self.files = files

    def info(self, name: bytes) -> os.stat_result | None:
        """The file of that name; None where there is none."""
        return info_of(name, dir_fd=self.files)


class Trash(TrashFiles):
    """One act's folder in one trash, opened. Its descriptors are closed with it."""

    def __init__(self, mount: int, top: int, folder: int, files: int, key: str) -> None:
        super().__init__(files)
        #: Of the folder that holds the trash (paths in the manifest start there), the trash, and the act's folder.
        self.mount, self.top, self.folder, self.key = mount, top, folder, key
        self._manifest: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        handles = [self._manifest, self.files, self.folder, self.top, self.mount]
        self._manifest = None
        for handle in handles:
            if handle is not None:
                os.close(handle)

    # --- The manifest -------------------------------------------------------------------------------------
    def write_manifest(self, lines: Iterable[str]) -> None:
        """On the disk when this returns."""
        data = manifest.written(lines)
        if not data:
            return
        handle = self._opened_manifest()
        if _is_cut_off(handle):
            data = b"\n" + data
        steps.append(handle, data)
        steps.sync(handle)

    def _opened_manifest(self) -> int:
        if self._manifest is None:
            self._manifest = steps.create(MANIFEST, dir_fd=self.folder)
            steps.sync(self.folder)
        return self._manifest

    def read_manifest(self) -> Iterator[dict[str, Any]]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(MANIFEST, flags, dir_fd=self.folder)
        except FileNotFoundError:
            return
        with os.fdopen(handle, "rb") as lines:
            yield from manifest.read(lines)

    # --- The files ----------------------------------------------------------------------------------------
    def names(self) -> set[bytes]:
        return {os.fsencode(name) for name in os.listdir(self.files)}  # noqa: PTH208  a descriptor

    def remove_if_empty(self) -> bool:
        """Take the act's folder away where no file is in it any more."""
        try:
            steps.rmdir(FILES, dir_fd=self.folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            if error.errno != errno.ENOENT:
                raise
        _take_away(self.mount, self.top, self.folder, self.key)
        return True


def open_trash(root: bytes, folder: bytes, key: str, *, is_made: bool) -> Trash:
    """The act's folder in the trash that lies in `folder` below the library.

    With `is_made` it is made where it is missing; otherwise that is a `FileNotFoundError`. Raises `Refusal` where
    something else has its name.
    """
    if not KEY.fullmatch(key):
        raise Refusal("NO_TRASH", "This is no name of an act.")
    handles: list[int] = []
    try:
        handles.append(open_folder(root, folder))
        for name in (NAME, key.encode(), FILES):
            handles.append(_open_or_make(name, handles[-1], is_made=is_made))
            if name == NAME:
                _refuse_foreign(handles[0], handles[-1])
    except BaseException:
        for handle in handles:
            os.close(handle)
        raise
    mount, top, act, files = handles
    return Trash(mount, top, act, files, key)


def _open_or_make(name: bytes, parent: int, *, is_made: bool) -> int:
    try:
        return os.open(name, OPEN_FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not is_made:
            raise
    except NotADirectoryError:
        raise Refusal("NO_TRASH", f"“{os.fsdecode(name)}” is not a folder, so nothing can be kept in it.") from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Refusal("NO_TRASH", f"“{os.fsdecode(name)}” is a link; a trash is never looked for behind one.") from None
    with suppress(FileExistsError):
        steps.mkdir(name, 0o700, dir_fd=parent)
    steps.sync(parent)
    return os.open(name, OPEN_FOLDER, dir_fd=parent)


def _refuse_foreign(mount: int, top: int) -> None:
    """A trash that others own or another disk holds is none; one that others may look into is closed to them."""
    info = os.fstat(top)
    if info.st_uid != os.geteuid():
        raise Refusal("NO_TRASH", f"“{TRASH}” belongs to another user (uid {info.st_uid}).")
    if info.st_dev != os.fstat(mount).st_dev:
        raise Refusal("NO_TRASH", f"Another filesystem is mounted at “{TRASH}”.")
    if S_IMODE(info.st_mode) & 0o077:
        os.fchmod(top, 0o700)


def _is_cut_off(handle: int) -> bool:
    """Whether a power cut or a kill left half a line at its end."""
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"


def info_of(name: bytes, *, dir_fd: int) -> os.stat_result | None:
    """What has that name, not followed where it is a link; None where nothing has."""
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


# --- Around it --------------------------------------------------------------------------------------------
def trash_folder_of(path: str, filesystems: Mapping[str, str]) -> str:
    """The folder below the library whose trash a file goes to: where the filesystem that holds it begins."""
    inside = [folder for folder in filesystems if folder and path.startswith(f"{folder}/")]
    return max(inside, key=len, default="")


def keys_in(root: bytes, folder: bytes) -> list[str]:
    """The acts that have a folder in that trash."""
    try:
        mount = open_folder(root, folder)
    except FileNotFoundError:
        return []
    try:
        top = os.open(NAME, OPEN_FOLDER, dir_fd=mount)
    except (FileNotFoundError, NotADirectoryError):
        return []
    finally:
        os.close(mount)
    try:
        return sorted(name for name in os.listdir(top) if KEY.fullmatch(name))  # noqa: PTH208  a descriptor
    finally:
        os.close(top)


@contextmanager
def opened_top(root: bytes, folder: bytes) -> Iterator[Top]:
    """A trash, whatever acts have a folder in it. Raises `FileNotFoundError` where there is none, `Refusal` where it is
    somebody else's."""
    mount = open_folder(root, folder)
    try:
        top = _open_or_make(NAME, mount, is_made=False)
        try:
            _refuse_foreign(mount, top)
            yield Top(mount, top)
        finally:
            os.close(top)
    finally:
        os.close(mount)


def is_empty(trash: Lockable) -> bool:
    """Whether nothing but its lock is in it."""
    return set(os.listdir(trash.top)) <= {TRASH_LOCK}  # noqa: PTH208  a descriptor


def clear(root: bytes, folder: bytes, key: str) -> bool:
    """Take an act's folder away if no file is left in it; whether it is gone. A kill may have left half of that."""
    try:
        mount = open_folder(root, folder)
    except FileNotFoundError:
        return True
    try:
        return _clear(mount, key)
    finally:
        os.close(mount)


def _clear(mount: int, key: str) -> bool:
    try:
        top = os.open(NAME, OPEN_FOLDER, dir_fd=mount)
    except FileNotFoundError:
        return True
    try:
        folder = os.open(key.encode(), OPEN_FOLDER, dir_fd=top)
    except FileNotFoundError:
        remove_empty(NAME, mount)
        return True
    else:
        try:
            if not remove_empty(FILES, folder):
                return False
            _take_away(mount, top, folder, key)
        finally:
            os.close(folder)
        return True
    finally:
        os.close(top)


def _take_away(mount: int, top: int, folder: int, key: str) -> None:
    """The manifest goes when the files are gone: then it tells of nothing any more."""
    with suppress(FileNotFoundError):
        steps.unlink(MANIFEST, dir_fd=folder)
    remove_empty(key.encode(), top)
    remove_empty(NAME, mount)


def remove_empty(name: bytes, parent: int) -> bool:
    try:
        steps.rmdir(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True
