"""How SQLite carries statements out over a large index whose statistics somebody has gathered (`ANALYZE`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from database.routing import EXECUTOR, POLICY
from duplicates import folder_pairs
from duplicates.facts import files_of
from duplicates.overlapping import search_now
from tests.duplicates.plans import copies, digest, library, planned

pytestmark = pytest.mark.django_db


@contextmanager
def half_a_million_files() -> Iterator[None]:
    """Statistics that say so: what the planner goes by. They are read when a connection is opened."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
            cursor.execute("UPDATE sqlite_stat1 SET stat = '500000 ' || SUBSTR(stat, INSTR(stat || ' ', ' ') + 1)")
        _open_anew()
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sqlite_stat1")
        _open_anew()


def _open_anew() -> None:
    for name in (POLICY, EXECUTOR):
        connections[name].close()


def ways(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(str(row[3]) for row in cursor.fetchall())


@pytest.mark.skipif(
    connections[POLICY].vendor != "sqlite", reason="about the planner of SQLite; runs in the pass on SQLite"
)
def test_nothing_reads_a_whole_index_to_ask_for_a_few_contents() -> None:
    """For an inner join with a few rows SQLite may build a Bloom filter of the large table first."""
    photos, backup = library("photos"), library("backup")
    for number in range(20):
        copies(photos, number, f"2024/{number}.jpg")
        copies(backup, number, f"2024/copy of {number}.jpg")
        copies(backup, 100 + number, f"2024/copy of {number}.xmp")
    with half_a_million_files(), ExitStack() as stack:
        seen = [stack.enter_context(CaptureQueriesContext(connections[name])) for name in (POLICY, EXECUTOR)]
        assert len(files_of([("blake3", digest(number)) for number in range(20)])) == 20
        search = search_now("test")
        (pair,) = folder_pairs.page(search, None).pairs
        assert len(folder_pairs.files(pair, folder_pairs.BOTH).files) == 20
        planned()
        statements = [each["sql"] for one in seen for each in one.captured_queries]
        asked = [sql for sql in statements if "VALUES (" in sql and "library_files" in sql and "SELECT" in sql[:20]]
        assert len({sql[:60] for sql in asked}) >= 4
        assert [sql for sql in asked if "BLOOM" in ways(sql)] == []
