"""Undo without any database: by the manifest that lies beside the files of a trash.

The disk may be mounted elsewhere than before, and the manifest may have been written by anybody. So its paths count
only where they go down from the folder that holds the trash, step by step and through no link; files are read again;
nothing is overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from libraries.names import to_display, to_text
from libraries.reading import reason_of
from trash import locking, manifest, steps
from trash.folders import KEY, MANIFEST, NAME, Trash, info_of, keys_in, open_trash
from trash.making_folders import Folders, WasFolder, clear_half_made, steps_of, was_folder
from trash.putting_back import Entry, PuttingBack
from trash.refusing import Refusal

_DIGEST = re.compile(r"(blake3|sha256):([0-9a-f]{64})", re.ASCII)
_ACTIONS = frozenset({"trash", "hardlink", "delete"})
LARGEST = 2**63 - 1
UNDONE, STAYS = "undone", "stays"


class BadTrash(Exception):
    """The folder is no trash, or can't be worked in; the words say why and what to give instead."""


class Told(NamedTuple):
    """What became of one file of the trash."""

    key: str
    #: Its name in the trash.
    name: bytes
    #: Where it came from, below the folder that holds the trash; empty where nothing tells.
    path: bytes
    status: str
    code: str = ""
    reason: str = ""
    info: os.stat_result | None = None

    @property
    def is_undone(self) -> bool:
        return self.status == UNDONE

    def described(self) -> dict[str, Any]:
        return {
            "act": self.key,
            "item": int(self.name) if self.name.isdigit() else None,
            "path": to_display(to_text(self.path)),
            "path_hex": self.path.hex(),
            "status": self.status,
            "reason_code": self.code,
            "reason": self.reason,
        }


class _Line(NamedTuple):
    entry: Entry
    inode: int | None


#: Called with the key of an act and what became of its files, while the lock is held and before its folder goes.
WhenDone = Callable[[str, list[Told]], None]


def undo_from(folder: bytes, when_done: WhenDone = lambda _key, _told: None) -> Iterator[Told]:
    """Bring back all that lies in a `.dedupfs-trash`, or in one act's folder of it. Raises `BadTrash`."""
    root, keys = _where(folder)
    try:
        with ExitStack() as stack:
            lock = _lock(stack)
            for key in keys:
                trash = stack.enter_context(_opened(root, key))
                lock.take(trash)
                told = []
                for each in _undo_act(trash):
                    told.append(each)
                    yield each
                when_done(key, told)
                clear_half_made(trash)
                with suppress(OSError):
                    trash.remove_if_empty()
                    lock.take_away(trash)
    except locking.Busy as busy:
        raise BadTrash(f"{busy} Try again when that has ended.") from None


# --- Where ------------------------------------------------------------------------------------------------
def _where(folder: bytes) -> tuple[bytes, list[str]]:
    """The folder that holds the trash, and the acts that are meant."""
    whole = Path(os.fsdecode(folder)).absolute()
    shown = to_display(to_text(os.fsencode(whole)))
    if whole.is_symlink():
        raise BadTrash(f"“{shown}” is a link; a trash is never looked for behind one.")
    if whole.name == NAME.decode():
        root = os.fsencode(whole.parent)
        keys = _newest_first(root, _keys(root))
    elif whole.parent.name == NAME.decode() and KEY.fullmatch(whole.name):
        root, keys = os.fsencode(whole.parent.parent), [whole.name]
    else:
        raise BadTrash(
            f"“{shown}” is no trash. Give the folder “{NAME.decode()}” of a library or a disk, or"
            " the folder of one act inside it."
        )
    if not keys:
        raise BadTrash(f"There is no trash with files at “{shown}”.")
    return root, keys


def _keys(root: bytes) -> list[str]:
    try:
        return keys_in(root, b"")
    except OSError as error:
        raise BadTrash(_not_opened(root, error)) from None


def _newest_first(root: bytes, keys: list[str]) -> list[str]:
    """A path that went twice gets its latest file back. A manifest's time is that of the last file it tells of."""

    def written(key: str) -> int:
        try:
            return os.lstat(b"/".join((root, NAME, key.encode(), MANIFEST))).st_mtime_ns
        except FileNotFoundError:
            return 0  # opening it tells what is wrong

    return sorted(keys, key=written, reverse=True)


def _opened(root: bytes, key: str) -> Trash:
    try:
        return open_trash(root, b"", key, is_made=False)
    except Refusal as refusal:
        raise BadTrash(f"The trash at “{to_display(to_text(root))}” is not used: {refusal.message}") from None
    except OSError as error:
        raise BadTrash(_not_opened(root, error)) from None


def _not_opened(root: bytes, error: OSError) -> str:
    return f"The trash at “{to_display(to_text(root))}” can't be opened: {reason_of(error)}"


def _lock(stack: ExitStack) -> locking.Held:
    """The lock of this installation, where it has a state folder it can write to; that of the trash in any case."""
    try:
        return stack.enter_context(locking.held(doing="undo from a manifest"))
    except OSError:
        lock = locking.Held(None)
        stack.callback(lock.let_go)
        return lock


# --- What -------------------------------------------------------------------------------------------------
def _undo_act(trash: Trash) -> Iterator[Told]:
    lines, known, lies = _read(trash)
    putting, folders = PuttingBack(lambda _amount: None), Folders(trash, known, known.keys())
    names = sorted(trash.names(), key=lambda name: (len(name), name))
    for name in names:
        yield _undo_one(trash, name, lines.get(name), lies.get(name), putting, folders)
    folders.set_times()
    steps.sync(trash.files)


def _undo_one(
    trash: Trash, name: bytes, line: _Line | None, lie: Refusal | None, putting: PuttingBack, folders: Folders
) -> Told:
    if line is None:
        reason = lie or Refusal("OUTSIDE", "The manifest does not tell where it came from; it is left as it is.")
        return Told(trash.key, name, b"", STAYS, reason.code, reason.message)
    path = line.entry.path
    try:
        if (info := _never_left(trash, line, folders)) is not None:
            return Told(trash.key, name, path, UNDONE, info=info)
        back = putting.put_back(trash, line.entry, folders)
    except Refusal as refusal:
        return Told(trash.key, name, path, STAYS, refusal.code, refusal.message)
    # Durable one by one: there is no record that would say afterwards where to look.
    try:
        steps.sync(back.folder)
    finally:
        os.close(back.folder)
    return Told(trash.key, name, path, UNDONE, back.code, back.reason, back.info)


def _never_left(trash: Trash, line: _Line, folders: Folders) -> os.stat_result | None:
    """A file whose place a link was about to take when somebody was killed: it has its name still, or again. The link
    that waits in the trash goes where its file has another name."""
    if not line.entry.is_linked or line.inode is None:
        return None
    made = len(folders.made)
    handle = folders.open(line.entry.path.rpartition(b"/")[0])
    try:
        found = info_of(line.entry.path.rpartition(b"/")[2], dir_fd=handle)
    finally:
        os.close(handle)
        folders.unmake(made)
    waiting = trash.info(line.entry.name)
    if found is None or waiting is None or found.st_ino != line.inode or found.st_dev != waiting.st_dev:
        return None
    if waiting.st_nlink < 2:
        return None
    steps.unlink(line.entry.name, dir_fd=trash.files)
    return found


# --- The manifest -----------------------------------------------------------------------------------------
def _read(trash: Trash) -> tuple[dict[bytes, _Line], dict[bytes, WasFolder], dict[bytes, Refusal]]:
    """Files by their name in the trash, folders by their path, and what is said of files that can't be true."""
    lines: dict[bytes, _Line] = {}
    lies: dict[bytes, Refusal] = {}
    known: dict[bytes, WasFolder] = {}
    told = trash.read_manifest()
    _refuse_head(next(told, None), trash.key)
    for line in told:
        if "folder_hex" in line:
            with suppress(Refusal):
                path = _path(line.get("folder_hex"))
                known[path] = was_folder(line)
        elif "item" in line:
            _read_item(line, lines, lies)
        elif "stray" in line:
            _read_stray(line, lines)
    return lines, known, lies


def _read_item(line: dict[str, Any], lines: dict[bytes, _Line], lies: dict[bytes, Refusal]) -> None:
    """What is said last of a file counts: whoever was killed said it again."""
    number = line["item"]
    if not _is_number(number) or number == 0:
        return  # no file of a trash is called so
    name = str(number).encode()
    lines.pop(name, None)
    try:
        lines[name] = _item(name, line)
    except Refusal as refusal:
        lies[name] = refusal


def _read_stray(line: dict[str, Any], lines: dict[bytes, _Line]) -> None:
    """Another file lies there than was told of before."""
    number, size, mtime_ns = line["stray"], line.get("size"), line.get("mtime_ns")
    known = lines.get(str(number).encode()) if _is_number(number) else None
    # A file may have been written before 1970.
    if known is not None and _is_number(size) and isinstance(mtime_ns, int):
        lines[known.entry.name] = known._replace(entry=known.entry.as_stray(int(size or 0), mtime_ns))


def _refuse_head(head: dict[str, Any] | None, key: str) -> None:
    if head is None or head.get("format") != manifest.FORMAT or head.get("act") != key:
        raise BadTrash(f"The manifest of act {key} is missing or is no manifest of DedupFS; nothing was done.")
    if head.get("version") != manifest.VERSION:
        raise BadTrash(f"The manifest of act {key} was written by another version of DedupFS; use that one.")


def _item(name: bytes, line: dict[str, Any]) -> _Line:
    found = _DIGEST.fullmatch(line["digest"]) if isinstance(line.get("digest"), str) else None
    size, action, inode = line.get("size"), line.get("action"), line.get("inode")
    if found is None or not _is_number(size) or action not in _ACTIONS:
        raise Refusal("OUTSIDE", "The manifest tells of it in words that no manifest has; it is left as it is.")
    entry = Entry(
        name, _path(line.get("path_hex")), int(size or 0), found[1], bytes.fromhex(found[2]), action == "hardlink"
    )
    return _Line(entry, inode if _is_number(inode) else None)


def _path(written: Any) -> bytes:
    try:
        path = bytes.fromhex(written)
    except (TypeError, ValueError):
        raise Refusal("OUTSIDE", "The manifest has no path for it; it is left as it is.") from None
    steps_of(path)
    return path


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
