"""An executor may read a database that its own process made, as a scan does with what its readers found."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from django.db import DatabaseError, connections

from database.routing import EXECUTOR
from jobs.enforcing import borrowed, transaction_on, writing
from jobs.whitelist import RULES

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", EXECUTOR]),
    pytest.mark.skipif(connections[EXECUTOR].vendor != "sqlite", reason="PostgreSQL attaches nothing"),
]


@pytest.fixture
def database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE found (path)")
        connection.execute("INSERT INTO found VALUES ('a')")
        connection.commit()
        connections[EXECUTOR].ensure_connection()
        return connection.serialize()


def run(sql: str) -> list[tuple[object, ...]]:
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_it_can_be_read_and_not_written(database: bytes) -> None:
    with borrowed(connections[EXECUTOR], database) as lent:
        assert run(f"SELECT path FROM {lent}.found") == [("a",)]
        for statement in (f"DELETE FROM {lent}.found", "UPDATE jobs SET kind = kind"):
            with pytest.raises(DatabaseError, match="not authorized"):
                run(statement)


def test_what_a_path_may_write_it_may_write_meanwhile(database: bytes) -> None:
    with writing("finish"), borrowed(connections[EXECUTOR], database):
        run("UPDATE jobs SET error_code = error_code")
        with pytest.raises(DatabaseError, match="not authorized"):
            run("UPDATE jobs SET kind = kind")


def test_it_is_gone_afterwards_also_after_an_error(database: bytes) -> None:
    for _ in range(20):  # SQLite attaches ten at the most
        with pytest.raises(RuntimeError, match="the disk is full"), borrowed(connections[EXECUTOR], database) as lent:
            raise RuntimeError("the disk is full")
    with pytest.raises(DatabaseError, match="no such table"):
        run(f"SELECT path FROM {lent}.found")
    with pytest.raises(DatabaseError, match="not authorized"), transaction_on("finish"):
        run("UPDATE jobs SET kind = kind")


def test_what_is_no_database_is_an_error_and_leaves_nothing(database: bytes) -> None:
    for _ in range(20):
        with (
            pytest.raises(DatabaseError, match="not a database"),
            borrowed(connections[EXECUTOR], b"none" * 4096) as lent,
        ):
            run(f"SELECT path FROM {lent}.found")
    with borrowed(connections[EXECUTOR], database) as lent:
        assert run(f"SELECT path FROM {lent}.found") == [("a",)]


@pytest.mark.parametrize("path", sorted({path for rules in RULES.values() for path in rules.paths}))
def test_no_path_attaches_one_by_itself(path: str) -> None:
    with writing(path), pytest.raises(DatabaseError, match="not authorized"):
        run("ATTACH ':memory:' AS mine")
