"""The lines of a proof: one JSON object for each file, from the records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from django.db import connections

from duplicates.models import group_key
from libraries.models import LibraryRoot
from libraries.names import to_bytes, to_display
from trash.manifest import quoted
from trash.models import Act
from trash.planned import SKIPPED, TRASHED

FORMAT, VERSION = "dedupfs-proof", 1
#: Rows that are read at a time.
PAGE = 2_000
#: Behind every row that there can be.
END = (1 << 63) - 1
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
#: Something else lies in the trash than what was read, or nothing did any more; or nobody saw what became of it.
_OTHERS = frozenset({"VICTIM_CHANGED", "TRASH_GONE", "VICTIM_GONE"})
_text = json.encoder.encode_basestring_ascii
_ROWS = """
SELECT t.id, t.status, t.reason_code, t.reason, t.library_id, t.device, t.inode, t.linked_inode, {acted}, {left},
       t.trash_folder, v.action, v.relative_path, v.size_bytes, v.mtime_ns, v.hash_algorithm, v.content_hash, v.reason,
       k.library_id, k.relative_path, k.size_bytes, k.mtime_ns, k.inode, k.content_hash, t.stray_size_bytes, {order}
  FROM trash_items t JOIN plan_files v ON v.id = t.plan_file_id JOIN plan_files k ON k.id = v.keeper_id
 WHERE {mine} = %s AND {order} > %s AND {order} <= %s ORDER BY {order} LIMIT {page}"""
#: Times as ISO 8601, made by the database: to read a million of them into Python takes longer than all the rest.
_TIMES = {
    "sqlite": "REPLACE({}, ' ', 'T') || '+00:00'",
    "postgresql": "TO_CHAR({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS') || '+00:00'",
}


class Lines:
    """Those of one act, in the order of its plan, or in which files came into the trash that it took out."""

    def __init__(self, act: Act, using: str) -> None:
        self.act, self.using, self._after = act, using, 0
        names = dict(LibraryRoot.objects.using(using).values_list("pk", "name"))
        self._writer = _Writer(act, {key: to_display(name) for key, name in names.items()})
        self._page = _page_of(act, connections[using].vendor)

    def head(self) -> str:
        return _encode(_head(self.act))

    def following(self, last: int) -> Iterator[list[str]]:
        """Page by page, those that were not given yet; of an act's own files up to this one of its plan."""
        while rows := self._rows(last):
            self._after = rows[-1][-1]
            yield [self._writer.line(row) for row in rows]

    def _rows(self, last: int) -> list[tuple[Any, ...]]:
        with connections[self.using].cursor() as cursor:
            cursor.execute(self._page, [self.act.pk, self._after, last])
            return list(cursor.fetchall())


def _page_of(act: Act, vendor: str) -> str:
    is_own = act.verb == Act.Verb.ACT
    order = "t.plan_file_id" if is_own else "t.id"
    return _ROWS.format(
        acted=_TIMES[vendor].format("t.acted_at"),
        left=_TIMES[vendor].format("t.left_at"),
        mine="t.act_id" if is_own else "t.left_by_id",
        order=order,
        page=PAGE,
    )


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
        self.approved_by = _text(act.authorised_by)
        #: The status of a file to which nothing was done.
        self.undone = SKIPPED if act.verb == Act.Verb.ACT else TRASHED
        self.names = {key: _text(name) for key, name in names.items()}

    def line(self, row: tuple[Any, ...]) -> str:
        """Where something was done, both files were read at that moment and had exactly the bytes of this digest."""
        (
            key, done, code, reason, library, device, inode, linked, acted_at, left_at, folder, action, path, size,
            mtime_ns, algorithm, digest, why, keeper_library, keeper_path, keeper_size, keeper_mtime_ns, keeper_inode,
            keeper_digest, stray, *_,
        ) = row  # fmt: skip
        because = f',"reason_code":{_text(code)},"reason":{quoted(reason)}' if code else ""
        left = f',"left_at":"{left_at}"' if left_at else ""
        at = f'"{acted_at}"' if acted_at else "null"
        # A file to which nothing was done may not have been read: its digest is what the plan had. Nor was one whose
        # place another file had taken, so that this one lies in the trash.
        compared = "false" if done == self.undone or code in _OTHERS or stray is not None else "true"
        known = group_key(algorithm, digest)
        kept = known if keeper_digest == digest else group_key(algorithm, keeper_digest)
        return (
            f'{{"item":{key},"done":"{done}","action":"{action or ""}","why":{quoted(why)}{because},'
            f'"at":{at}{left},"approved_by":{self.approved_by},"compared":{compared},'
            f'"file":{{"library":{self._library(library)},"path":{quoted(path)},"path_hex":"{to_bytes(path).hex()}",'
            f'"size":{size},"mtime_ns":{mtime_ns},"inode":{"null" if inode is None else inode},'
            f'"device":{"null" if device is None else device},"digest":"{known}",'
            f'"linked_inode":{"null" if linked is None else linked},"trash_folder":{_often(folder)}}},'
            f'"stays":{{"library":{self._library(keeper_library)},"path":{quoted(keeper_path)},'
            f'"path_hex":"{to_bytes(keeper_path).hex()}","size":{keeper_size},"mtime_ns":{keeper_mtime_ns},'
            f'"inode":{"null" if keeper_inode is None else keeper_inode},"digest":"{kept}"}}}}'
        )

    def _library(self, key: int) -> str:
        return self.names.get(key) or f'"{key}"'


@lru_cache(64)
def _often(text: str) -> str:
    """Folders of which there are few."""
    return quoted(text)
