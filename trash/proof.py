"""The proof of an act: one JSON line for each file, with what was compared, what was done and who approved it.

It is written from the records when the act ends, page by page, into `STATE_ROOT/proofs/`. Its SHA-256 goes into the
logbook, so that nobody can change the file unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections

from database.routing import EXECUTOR
from duplicates.models import group_key
from libraries.models import LibraryRoot
from libraries.names import to_bytes, to_display
from trash.manifest import shown
from trash.models import Act, TrashItem

FORMAT, VERSION = "dedupfs-proof", 1
FOLDER = "proofs"
#: Rows that are read at a time.
PAGE = 2_000
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_SKIPPED, _TRASHED = TrashItem.Status.SKIPPED.value, TrashItem.Status.TRASHED.value
#: Something else lies in the trash than what was read, or nothing did any more.
_OTHERS = frozenset({"VICTIM_CHANGED", "TRASH_GONE"})
_text = json.encoder.encode_basestring_ascii
_ROWS = """
SELECT t.id, t.status, t.reason_code, t.reason, t.library_id, t.device, t.inode, t.linked_inode, {acted}, {left},
       t.trash_folder, v.action, v.relative_path, v.size_bytes, v.mtime_ns, v.hash_algorithm, v.content_hash, v.reason,
       k.library_id, k.relative_path, k.size_bytes, k.mtime_ns, k.inode, k.content_hash
  FROM trash_items t JOIN plan_files v ON v.id = t.plan_file_id JOIN plan_files k ON k.id = v.keeper_id
 WHERE {mine} = %s AND {order} > %s ORDER BY {order} LIMIT {page}"""
#: Times as ISO 8601, made by the database: to read a million of them into Python takes longer than all the rest.
_TIMES = {
    "sqlite": "REPLACE({}, ' ', 'T') || '+00:00'",
    "postgresql": "TO_CHAR({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS') || '+00:00'",
}


def write_proof(act: Act, using: str = EXECUTOR) -> tuple[str, str]:
    """Write the proof of what is recorded now; return its name and its SHA-256. It is whole on the disk, or not
    there."""
    folder = proof_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"act-{act.pk}-{act.key}.jsonl"
    draft, digest = folder / f".{name}.new", hashlib.sha256()
    with draft.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        for lines in _pages(act, using):
            data = "".join(f"{line}\n" for line in lines).encode()
            digest.update(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / name)
    _sync(folder)
    return name, digest.hexdigest()


def proof_folder() -> Path:
    return Path(settings.STATE_ROOT) / FOLDER


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- Lines ------------------------------------------------------------------------------------------------
def _pages(act: Act, using: str) -> Iterator[list[str]]:
    yield [_encode(_head(act))]
    names = dict(LibraryRoot.objects.using(using).values_list("pk", "name"))
    writer, after = _Writer(act, {key: to_display(name) for key, name in names.items()}), 0
    while rows := _page(act, using, after):
        yield [writer.line(row) for row in rows]
        after = rows[-1][-1]


def _page(act: Act, using: str, after: int) -> list[tuple[Any, ...]]:
    """What an act did itself, in the order of its plan, or what it took out of the trash."""
    is_own = act.verb == Act.Verb.ACT
    time = _TIMES[connections[using].vendor]
    order = "t.plan_file_id" if is_own else "t.id"
    sql = _ROWS.format(
        acted=time.format("t.acted_at"),
        left=time.format("t.left_at"),
        mine="t.act_id" if is_own else "t.left_by_id",
        order=order,
        page=PAGE,
    ).replace("k.content_hash\n", f"k.content_hash, {order}\n")
    with connections[using].cursor() as cursor:
        cursor.execute(sql, [act.pk, after])
        return list(cursor.fetchall())


def _head(act: Act) -> dict[str, Any]:
    plan = act.plan
    return {
        "format": FORMAT,
        "version": VERSION,
        "act": act.key,
        "number": act.pk,
        "verb": act.verb,
        "plan": act.plan_id,
        "action": plan.action if plan else None,
        "rules": plan.rule_set_name if plan else None,
        "approved_by": act.authorised_by,
        "approved_at": act.authorised_at.isoformat(),
        "files": act.file_count,
    }


class _Writer:
    """Lines of files. There may be a million, so each is put together by hand."""

    def __init__(self, act: Act, names: dict[int, str]) -> None:
        self.approved_by, self.is_own = _text(act.authorised_by), act.verb == Act.Verb.ACT
        self.names = {key: _text(name) for key, name in names.items()}

    def line(self, row: tuple[Any, ...]) -> str:
        """Where something was done, both files were read at that moment and had exactly the bytes of this digest."""
        (
            key, done, code, reason, library, device, inode, linked, acted_at, left_at, folder, action, path, size,
            mtime_ns, algorithm, digest, why, keeper_library, keeper_path, keeper_size, keeper_mtime_ns, keeper_inode,
            keeper_digest, *_,
        ) = row  # fmt: skip
        because = f',"reason_code":{_text(code)},"reason":{_shown(reason)}' if code else ""
        left = f',"left_at":{_text(left_at)}' if left_at else ""
        at = _text(acted_at) if acted_at else "null"
        compared = "true" if self._is_compared(done, code) else "false"
        known = group_key(algorithm, digest)
        kept = known if keeper_digest == digest else group_key(algorithm, keeper_digest)
        return (
            f'{{"item":{key},"done":{_often(done)},"action":{_often(action or "")},"why":{_often(why)}{because},'
            f'"at":{at}{left},"approved_by":{self.approved_by},"compared":{compared},'
            f'"file":{{{self._file(library, path)},"size":{size},"mtime_ns":{mtime_ns},"inode":{_number(inode)},'
            f'"device":{_number(device)},"digest":"{known}","linked_inode":{_number(linked)},'
            f'"trash_folder":{_often(folder)}}},'
            f'"stays":{{{self._file(keeper_library, keeper_path)},"size":{keeper_size},"mtime_ns":{keeper_mtime_ns},'
            f'"inode":{_number(keeper_inode)},"digest":"{kept}"}}}}'
        )

    def _is_compared(self, done: str, code: str) -> bool:
        """A file to which nothing was done may not have been read: its digest is what the plan had. Nor was one whose
        place another file had taken, so that this one lies in the trash."""
        is_done = done != (_SKIPPED if self.is_own else _TRASHED)
        return is_done and code not in _OTHERS

    def _file(self, library_id: int, path: str) -> str:
        name = self.names.get(library_id) or f'"{library_id}"'
        return f'"library":{name},"path":{_shown(path)},"path_hex":"{to_bytes(path).hex()}"'


@lru_cache(64)
def _often(text: str) -> str:
    """Reasons and folders of which there are few."""
    return _shown(text)


def _shown(text: str) -> str:
    return _text(shown(text))


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)
