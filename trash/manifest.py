"""The manifest beside the files of a trash: enough to bring them back without any database.

One JSON object a line. The first tells whose act it was; every other one tells of a file or of a folder, before
anything is done to it. Paths start at the folder that holds the trash, so they are right wherever the disk is mounted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from libraries.names import to_display, to_text
from trash.planned import Stray

FORMAT, VERSION = "dedupfs-trash", 1
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_text = json.encoder.encode_basestring_ascii


def head_line(*, key: str, plan: int | None, approved_by: str, approved_at: str, library: str) -> str:
    return _encode(
        {
            "format": FORMAT,
            "version": VERSION,
            "act": key,
            "plan": plan,
            "approved_by": approved_by,
            "approved_at": approved_at,
            "library": to_display(library),
        }
    )


def item_line(
    number: int,
    path: bytes,
    text: str,
    info: os.stat_result,
    *,
    digest: str,
    action: str,
    keeper: str,
    attributes: dict[str, str],
) -> str:
    """A file: its name in the trash, where it came from, as bytes and as the text that is stored, and what it was like.
    There may be a million, so the line is put together by hand."""
    return (
        f'{{"item":{number},"path_hex":"{path.hex()}","path":{quoted(text)},"size":{info.st_size},'
        f'"mtime_ns":{info.st_mtime_ns},"mode":{info.st_mode & 0o7777},"uid":{info.st_uid},"gid":{info.st_gid},'
        f'"inode":{info.st_ino},"digest":"{digest}","action":"{action}","keeper":{quoted(keeper)},'
        f'"attributes":{_encode(attributes) if attributes else "{}"}}}'
    )


def stray_line(name: int, stray: Stray) -> str:
    """Of a file that was told of before: another one lies there. It holds until the file is told of anew."""
    return _encode({"stray": name, "size": stray.size, "mtime_ns": stray.mtime_ns, "inode": stray.inode})


def folder_line(path: bytes, info: os.stat_result, attributes: dict[str, str]) -> str:
    """An empty folder that goes with the files that were in it."""
    return _encode(
        {
            "folder_hex": path.hex(),
            "folder": to_display(to_text(path)),
            "mtime_ns": info.st_mtime_ns,
            "mode": info.st_mode & 0o7777,
            "uid": info.st_uid,
            "gid": info.st_gid,
            "attributes": attributes,
        }
    )


def quoted(text: str) -> str:
    """As people read it, in JSON. Most names need nothing for that."""
    return _text(text if text.isprintable() else to_display(text))


def written(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def read(data: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects in it. A line that was cut off tells of something that was never done: nothing is done before its
    line is whole on the disk."""
    for line in data:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def attributes_of(handle: int) -> dict[str, str]:
    """Extended attributes, both names and values in hexadecimal; none where the filesystem has none."""
    try:
        names = os.listxattr(handle)
    except OSError:
        return {}
    found = {}
    for name in names:
        try:
            found[os.fsencode(name).hex()] = os.getxattr(handle, name).hex()
        except OSError:
            continue  # gone since, or not for our eyes; the inode keeps it in any case
    return found
