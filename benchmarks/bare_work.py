"""How quick can it be? What a first scan of tree a takes where nothing but its bare work is done: every file read and
hashed by Python's own calls, the rows put into the real tables, groups made of them by one statement; no walk that can
be killed, no lease, no limit of memory. Against the quickest finders, in the same loop."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path

from blake3 import blake3

from benchmarks import cold
from benchmarks.options import Options
from benchmarks.peers import PEERS
from benchmarks.product import installed
from benchmarks.report import Section, table
from benchmarks.timing import Spent, median, stolen_seconds
from benchmarks.trees import built
from database.portions import portions

TREE, FILES = "a", 200_000
RIVALS = ("jdupes -Q", "hardlink")
WORKS = ("read and hash", "store rows", "make groups")
#: Rows of a transaction, and of a statement.
BATCH, TOGETHER = 20_000, 1_000
Row = tuple[str, int, int, int, int, int, int, bytes]

_INSERT = """
WITH s (path, size, mtime, ctime, inode, device, links, digest) AS (VALUES {rows})
INSERT INTO library_files (library_id, relative_path, size_bytes, mtime_ns, ctime_ns, inode, device, nlink, needs_hash,
       hash_algorithm, content_hash, hashed_size_bytes, hashed_mtime_ns, hashed_at, created_at, updated_at)
SELECT 1, path, size, mtime, ctime, inode, device, links, 0, 'blake3', digest, size, mtime, {now}, {now}, {now}
  FROM s"""
_GROUPS = """
INSERT INTO duplicate_groups (hash_algorithm, content_hash, size_bytes, file_count, total_size_bytes, inode_count,
       reclaimable_bytes, newest_ns, sample_file_id, library_ids, spans_libraries)
SELECT hash_algorithm, content_hash, MIN(size_bytes), COUNT(*), SUM(size_bytes), COUNT(*),
       MIN(size_bytes) * (COUNT(*) - 1), MAX(mtime_ns), MIN(id), ',1,', 0
  FROM library_files WHERE content_hash IS NOT NULL GROUP BY hash_algorithm, content_hash HAVING COUNT(*) > 1"""


def measure(options: Options) -> Iterable[Section]:
    figures: dict[str, list[Spent]] = defaultdict(list)
    rivals = [peer for peer in PEERS if peer.name in RIVALS and peer.program]
    with installed(built(TREE, options.work), options.work) as (ours, pristine):
        for _ in range(options.rounds):
            cold.warm(ours.tree)
            for peer in rivals:
                figures[peer.name].append(peer.run(ours.tree, ours.scratch))
            ours.renew(pristine)
            for name, spent in zip(WORKS, _bare_scan(ours.tree, ours.state / "dedupfs.sqlite3"), strict=True):
                figures[name].append(spent)
    return [Section("The bare work of tree a", _body({name: median(runs) for name, runs in figures.items()}, options))]


def _body(spent: dict[str, Spent], options: Options) -> str:
    cores, works = os.cpu_count() or 1, [spent[name] for name in WORKS]
    quickest = min((name for name in spent if name not in WORKS), key=lambda name: spent[name].wall)

    def line(name: str, wall: float, cpu: float) -> list[str]:
        return [name, f"{wall:.2f}", f"{cpu:.2f}", f"{cpu * 1e6 / FILES:.1f}", f"{wall / spent[quickest].wall:.2f}"]

    rows = [line(name, each.wall, each.cpu) for name, each in spent.items()]
    *side_by_side, last = (each.cpu for each in works)
    least, whole = sum(side_by_side) / cores + last, sum(side_by_side) + last
    rows.append(line(f"all of it, with {cores} cores busy until the last row is stored", least, whole))
    what = (
        f"{' '.join(__doc__.split())} {FILES:,} files, warm; {options.extent}. The last line is reckoned: as if rows "
        "cost nothing to hand over, and cores that are all busy were each as quick as one alone. Groups can only be "
        "made when all rows are stored, by the one who may write."
    )
    return f"{what}\n\n{table(['work', 'wall s', 'CPU s', 'CPU, µs a file', f'times {quickest}'], rows)}"


# --- The work ---------------------------------------------------------------------------------------------
def _bare_scan(tree: Path, database: Path) -> list[Spent]:
    rows: list[Row] = []
    read = _spent(lambda: rows.extend(_read(os.fsencode(tree))))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "cache_size=-32768"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("DROP TRIGGER duplicates_note_insert")
        stored = _spent(lambda: _store(connection, rows))
        grouped = _spent(lambda: connection.execute(_GROUPS))
    return [read, stored, grouped]


def _spent(work: Callable[[], object]) -> Spent:
    stolen, wall, before = stolen_seconds(), time.perf_counter(), os.times()
    work()
    after = os.times()
    wall, stolen = time.perf_counter() - wall, stolen_seconds() - stolen
    return Spent(wall, after.user - before.user, after.system - before.system, stolen)


def _read(root: bytes) -> Iterable[Row]:
    """The fewest calls that tell a file which changes while it is read."""
    for folder, _, names, handle in os.fwalk(root):
        above = os.fsdecode(folder[len(root) + 1 :])
        for name in names:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=handle)
            info = os.fstat(file)
            content = os.read(file, info.st_size + 1)
            after = os.fstat(file)
            os.close(file)
            assert (len(content), after.st_mtime_ns) == (info.st_size, info.st_mtime_ns)
            path = f"{above}/{os.fsdecode(name)}"
            known = (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev, info.st_nlink)
            yield (path, *known, blake3(content).digest())


def _store(connection: sqlite3.Connection, rows: list[Row]) -> None:
    now = "'2026-01-01 00:00:00.000'"
    for batch in portions(rows, BATCH):
        connection.execute("BEGIN IMMEDIATE")
        for some in portions(sorted(batch, key=lambda row: row[7]), TOGETHER):
            marks = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * len(some))
            connection.execute(_INSERT.format(rows=marks, now=now), list(chain.from_iterable(some)))
        connection.execute("COMMIT")
