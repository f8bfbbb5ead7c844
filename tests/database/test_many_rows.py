"""Many rows by few statements: all of them arrive, and an error is Django's."""

from __future__ import annotations

from sqlite3 import OperationalError

import pytest
from django.db import IntegrityError, connection, transaction

from database.many_rows import TOGETHER, insert_together, savepoint

pytestmark = pytest.mark.django_db
INTO = "many_rows (id, word, data)"


@pytest.fixture(autouse=True)
def table() -> None:
    blob = "blob" if connection.vendor == "sqlite" else "bytea"
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS many_rows")
        cursor.execute(f"CREATE TEMP TABLE many_rows (id bigint PRIMARY KEY, word text, data {blob})")


def stored() -> list[tuple[int, str | None, bytes]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, word, data FROM many_rows ORDER BY id")
        return [(key, word, bytes(data)) for key, word, data in cursor.fetchall()]


@pytest.mark.parametrize("count", [0, 1, TOGETHER - 1, TOGETHER, 2 * TOGETHER + 7])
def test_all_rows_arrive_as_they_are(count: int) -> None:
    rows = [(number, None if number % 3 else "% ? %s 'ü", bytes([number % 256])) for number in range(count)]
    insert_together(connection, INTO, rows)
    assert stored() == rows


def test_what_the_database_refuses_is_told_as_by_django() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_together(connection, INTO, [(1, "a", b""), (1, "b", b"")])
    assert stored() == []


def test_what_fails_on_its_way_into_a_scratch_table_leaves_no_transaction_open() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("SQLite has scratch tables outside of transactions")
    rows = [(number, "a", b"") for number in range(TOGETHER)]
    with pytest.raises(OverflowError), savepoint(connection):
        insert_together(connection, INTO, [*rows, (1 << 63, "too large", b"")])
    assert stored() == []
    with pytest.raises(OperationalError, match="no such savepoint"):
        connection.connection.execute("RELEASE scratch_rows")
