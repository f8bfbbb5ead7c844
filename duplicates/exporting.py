"""What is filtered as CSV or JSON lines, one file a line, read page by page while it is sent.

Paths are shown as on pages; `path_hex` holds the bytes of the absolute path, which are the whole truth. A spreadsheet
runs a cell that begins like a formula, and anybody who can name a file could write one. So in CSV such a cell of text
gets an apostrophe before it, which spreadsheets take as "this is text"; every text is quoted, so that no separator in
a name begins a cell of its own.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from database.routing import POLICY
from duplicates import listing
from duplicates.facts import Digest, FileFacts
from duplicates.filtering import Filter
from duplicates.members import in_portions
from duplicates.models import DuplicateGroup
from libraries.names import to_bytes, to_display

#: What a spreadsheet takes for the beginning of a formula, also in the wide forms that it reads the same way.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Lines that are sent together.
_LINES = 500
COLUMNS = (
    "group_key", "size_bytes", "file_count", "reclaimable_bytes", "file_id", "library", "path", "path_hex", "mtime_ns",
)  # fmt: skip

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Format:
    """A form of the export: for `StreamingHttpResponse(form.write(filter, order), content_type=form.content_type)`."""

    name: str
    content_type: str
    file_name: str
    write: Callable[..., Iterator[bytes]]


def as_csv(filter: Filter, order: str = "reclaimable", using: str = POLICY) -> Iterator[bytes]:
    lines = _Lines()
    write_row = harmless_csv(lines)
    write_row(COLUMNS)
    for row in rows(filter, order, using):
        write_row(row)
        if len(lines.held) >= _LINES:
            yield lines.take()
    if lines.held:
        yield lines.take()


def as_json_lines(filter: Filter, order: str = "reclaimable", using: str = POLICY) -> Iterator[bytes]:
    lines = _Lines()
    for row in rows(filter, order, using):
        lines.write(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n")
        if len(lines.held) >= _LINES:
            yield lines.take()
    if lines.held:
        yield lines.take()


FORMATS = {
    form.name: form
    for form in (
        Format("csv", "text/csv; charset=utf-8", "duplicates.csv", as_csv),
        Format("json", "application/x-ndjson", "duplicates.jsonl", as_json_lines),
    )
}


def rows(filter: Filter, order: str = "reclaimable", using: str = POLICY) -> Iterator[Row]:
    """Every file of every matching group, as `COLUMNS` names it. No statement is left open between two pages."""
    for groups, _cursor in listing.every(filter, order, using):
        known: dict[Digest, DuplicateGroup] = {
            (group.hash_algorithm, bytes(group.content_hash)): group for group in groups
        }
        counts = ((digest, group.file_count) for digest, group in known.items())
        for digest, files in in_portions(counts, using):
            group = known[digest]
            for file in files:
                yield (group.key, file.size, group.file_count, group.reclaimable_bytes, *_told(file))


def _told(file: FileFacts) -> Row:
    path = to_bytes(file.place.root_path) + b"/" + to_bytes(file.path)
    return (file.id, to_display(file.place.name), to_display(file.path), path.hex(), file.mtime_ns)


def harmless_csv(target: Any) -> Callable[[Sequence[Any]], Any]:
    """What writes rows to it as CSV in which no cell runs or breaks apart: numbers stay bare, every text is quoted."""
    writer = csv.writer(target, quoting=csv.QUOTE_NONNUMERIC)
    return lambda row: writer.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in row])


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


class _Lines:
    """What is written to it, until it is taken: the `csv` module wants something that looks like a file."""

    def __init__(self) -> None:
        self.held: list[str] = []

    def write(self, text: str) -> None:
        self.held.append(text)

    def take(self) -> bytes:
        taken = "".join(self.held).encode()
        self.held.clear()
        return taken
