"""The database refuses what an executor may not write, whatever the statement and whoever prepared it."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import DatabaseError, connections, transaction

from database.routing import EXECUTOR
from jobs.enforcing import transaction_on, writing
from jobs.models import Job
from jobs.whitelist import APPEND_ONLY, RULES
from tests import factories
from thumbnails.models import Thumbnail

pytestmark = pytest.mark.django_db


def columns_of(table: str) -> list[str]:
    with connections["default"].cursor() as cursor:
        return [column.name for column in connections["default"].introspection.get_table_description(cursor, table)]


def computed_columns_of(table: str) -> set[str]:
    """Nobody writes these: the database computes them."""
    fields = (field for model in apps.get_models() if model._meta.db_table == table for field in model._meta.fields)
    return {str(field.column) for field in fields if field.generated}


def run(sql: str) -> None:
    with connections[EXECUTOR].cursor() as cursor:
        cursor.execute(sql)


def assert_refused(sql: str, path: str) -> None:
    with (
        pytest.raises(DatabaseError, match=r"not authorized|permission denied|prohibited"),
        transaction_on(path),
    ):
        run(sql)


EVERY_PATH = [(table, path) for table, rules in RULES.items() for path in rules.paths]


@pytest.mark.parametrize(("table", "path"), EVERY_PATH, ids=[f"{table}-{path}" for table, path in EVERY_PATH])
def test_each_path_writes_its_columns_and_no_other(table: str, path: str) -> None:
    is_sqlite = connections[EXECUTOR].vendor == "sqlite"
    allowed = RULES[table].paths[path] if is_sqlite else RULES[table].updatable
    present = columns_of(table)
    assert RULES[table].paths[path] <= set(present), "the whitelist names columns the table has"
    for column in sorted(set(present) - computed_columns_of(table)):
        statement = f"UPDATE {table} SET {column} = {column}"
        if column in allowed or column == "updated_at":
            with transaction_on(path):
                run(statement)
        else:
            assert_refused(statement, path)


@pytest.mark.parametrize("table", ["jobs", "thumbnails", "thumbnail_cleanup_jobs", "wal_maintenance_jobs"])
def test_an_executor_inserts_into_no_leased_table(table: str) -> None:
    for path in RULES[table].paths:
        assert_refused(f"INSERT INTO {table} SELECT * FROM {table}", path)


@pytest.mark.parametrize("table", ["accounts_user", "accounts_apitoken", "django_session", "django_migrations"])
def test_tables_outside_the_list_are_out_of_reach(table: str) -> None:
    column = columns_of(table)[-1]
    assert_refused(f"UPDATE {table} SET {column} = {column}", "claim")
    assert_refused(f"DELETE FROM {table}", "claim")


@pytest.mark.parametrize("table", sorted(APPEND_ONLY))
def test_the_logbook_can_only_grow(table: str) -> None:
    for path in ("claim", "finish", "scan"):
        assert_refused(f"DELETE FROM {table}", path)
    assert_refused(f"UPDATE {table} SET created_at = created_at", "finish")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE jobs",
        "ALTER TABLE jobs ADD COLUMN more text",
        "CREATE TABLE mine (a int)",
        "DROP TRIGGER logbook_jobs_update",
        "CREATE TRIGGER t AFTER INSERT ON logbook_events BEGIN UPDATE jobs SET kind = 'hash'; END",
        "CREATE TEMP TRIGGER t AFTER INSERT ON logbook_events BEGIN UPDATE jobs SET kind='hash'; END",
        "ATTACH ':memory:' AS other",
        "PRAGMA writable_schema = 1",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ],
)
def test_the_schema_is_out_of_reach(statement: str) -> None:
    if connections[EXECUTOR].vendor != "sqlite" and not statement.startswith(("DROP TABLE", "ALTER", "CREATE TABLE")):
        statement = "TRUNCATE jobs"
    with pytest.raises(DatabaseError), writing("finish"):
        run(statement)


def test_replace_can_not_smuggle_a_policy_column_in() -> None:
    job, _ = factories.running_job("scan")
    replace = (
        f"INSERT OR REPLACE INTO jobs (id, kind, status) VALUES ('{job.pk}', 'hash', 'running')"
        if connections[EXECUTOR].vendor == "sqlite"
        else f"INSERT INTO jobs (id, kind) VALUES ('{job.pk}', 'hash') ON CONFLICT (id) DO UPDATE SET kind = 'hash'"
    )
    for path in RULES["jobs"].paths:
        assert_refused(replace, path)
    job.refresh_from_db()
    assert job.kind == "scan"


def test_a_statement_prepared_on_another_path_is_refused() -> None:
    """SQLite asks when it prepares: a statement cached on a wide path must be asked about again on a narrow one."""
    factories.pending_job("scan")
    statement = "UPDATE library_files SET size_bytes = size_bytes"
    for _ in range(2):
        with transaction_on("scan"):
            run(statement)
        if connections[EXECUTOR].vendor == "sqlite":
            assert_refused(statement, "heartbeat")
            with transaction_on("finish"), pytest.raises(DatabaseError):
                run(statement)


def test_outside_every_path_nothing_is_written() -> None:
    job = factories.pending_job("scan")
    if connections[EXECUTOR].vendor == "sqlite":
        with pytest.raises(DatabaseError, match=r"not authorized"):
            Job.objects.using(EXECUTOR).filter(pk=job.pk).update(status="running")


def test_the_orm_gets_the_database_s_refusal() -> None:
    job = factories.pending_job("scan")
    with pytest.raises(DatabaseError), transaction_on("claim"):
        Job.objects.using(EXECUTOR).filter(pk=job.pk).update(payload={"mine": 1})
    job.refresh_from_db()
    assert job.payload == {}


@pytest.mark.parametrize("status", ["pending", "running", "ready", "failed"])
def test_cleanup_deletes_only_finished_thumbnails(status: str) -> None:
    factories.pending_thumbnail(status=status)
    if status in ("ready", "failed"):
        delete_thumbnails()
        assert not Thumbnail.objects.exists()
    else:
        with pytest.raises(DatabaseError):
            delete_thumbnails()
        assert Thumbnail.objects.exists()


def delete_thumbnails() -> None:
    with transaction_on("cleanup"):
        run("DELETE FROM thumbnails")


def test_policy_s_connection_is_not_restricted() -> None:
    job = factories.pending_job("scan")
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(kind="hash")
    factories.pending_thumbnail(status="pending")
    Thumbnail.objects.all().delete()


@pytest.mark.skipif(connections[EXECUTOR].vendor != "postgresql", reason="SQLite is asked below")
def test_what_records_an_act_waits_for_postgresql_s_disk() -> None:
    """Caution 18. The server of these tests has it off, as a deployment may."""

    def waits() -> str:
        with connections[EXECUTOR].cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return str(cursor.fetchone()[0])

    with transaction_on("act"):
        assert waits() == "on"
    with transaction_on("scan"):
        assert waits() == "off"


@pytest.mark.skipif(connections[EXECUTOR].vendor != "sqlite", reason="PostgreSQL is asked above")
def test_what_records_an_act_outlives_a_power_cut() -> None:
    """Caution 18. SQLite's 2 is FULL, 1 is NORMAL."""

    def synchronous() -> int:
        raw = connections[EXECUTOR].connection
        raw.set_authorizer(None)
        ((mode,),) = raw.execute("PRAGMA synchronous").fetchall()
        return int(mode)

    with transaction_on("act"):
        assert synchronous() == 2
    assert synchronous() == 1
    with transaction_on("scan"):
        assert synchronous() == 1
    with (
        transaction.atomic(using=EXECUTOR),
        pytest.raises(RuntimeError, match="a transaction of its own"),
        writing("act"),
    ):
        pass
