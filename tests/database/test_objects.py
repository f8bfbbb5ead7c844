"""Triggers, hand-made indexes and grants are where they belong, and come back when they were lost."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, connections

from database import objects
from database.objects import Drift
from database.routing import EXECUTOR
from jobs.enforcing import transaction_on
from tests import factories

pytestmark = pytest.mark.django_db


def forget(name: str) -> None:
    each = next(each for each in objects.expected(connection.vendor) if each.name == name)
    with connection.cursor() as cursor:
        cursor.execute(each.drop)


def test_a_migrated_database_has_all_of_them() -> None:
    assert len(objects.expected(connection.vendor)) > 15
    assert objects.drift(connection) == []


@pytest.mark.parametrize("kind", ["INDEX", "TRIGGER"])
def test_what_was_lost_is_found_and_put_back_by_migrate(kind: str) -> None:
    lost = [each.name for each in objects.expected(connection.vendor) if each.kind == kind]
    for name in lost:
        forget(name)
    assert objects.drift(connection) == [Drift(name, "missing") for name in lost]
    call_command("migrate", verbosity=0)
    assert objects.drift(connection) == []


def test_a_table_rebuild_loses_triggers_and_migrate_puts_them_back() -> None:
    """What Django does to alter a SQLite table, as it does it."""
    from jobs.models import Job

    connection.disable_constraint_checking()
    with connection.schema_editor() as editor:
        field = Job._meta.get_field("attempts")
        changed = field.clone()
        changed.set_attributes_from_name("attempts")
        changed.model, changed.db_default = Job, field.db_default
        changed.null = True
        editor.alter_field(Job, field, changed)
    with connection.schema_editor() as editor:
        editor.alter_field(Job, changed, field)
    if connection.vendor == "sqlite":
        assert Drift("logbook_jobs_update", "missing") in objects.drift(connection)
    call_command("migrate", verbosity=0)
    assert objects.drift(connection) == []


def test_a_changed_definition_is_noticed() -> None:
    name = "ix_jobs_single_active_scan_hash"
    forget(name)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE UNIQUE INDEX {name} ON jobs (id)")
    assert objects.drift(connection) == [Drift(name, "differs from this version's definition")]
    objects.install(connection)
    assert objects.drift(connection) == []


def test_installing_twice_changes_nothing() -> None:
    assert objects.install(connection) == []


def test_triggers_work_for_an_executor_that_may_not_write_the_logbook_by_itself() -> None:
    _, lease = factories.running_job("scan")
    lease.finish("completed")
    with transaction_on("claim"), connections[EXECUTOR].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM logbook_events")
        assert cursor.fetchone()[0] == 3


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite copies rows because of a trigger")
def test_an_executor_sets_aside_the_idle_trigger_of_the_table_it_fills_and_nothing_else() -> None:
    def triggers() -> set[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'library_files'")
            return {name for (name,) in cursor.fetchall()}

    before = triggers()
    idle = {each.name for each in objects.expected("sqlite") if each.is_idle}
    assert idle
    assert idle < before
    with (
        transaction_on("scan"),
        objects.without_idle_triggers(connections[EXECUTOR], "library_files"),
        connections[EXECUTOR].cursor() as cursor,
    ):
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'library_files'")
        assert {name for (name,) in cursor.fetchall()} == before - idle
    assert triggers() == before
    assert objects.drift(connection) == []
    refused = [
        (path, f"DROP TRIGGER {name}")
        for path, names in (("scan", before - idle), ("claim", before), ("count", before))
        for name in sorted(names)
    ]
    refused += [("scan", "DELETE FROM sqlite_master"), ("scan", "DROP TABLE library_files")]
    for path, sql in refused:
        with pytest.raises(DatabaseError), transaction_on(path), connections[EXECUTOR].cursor() as cursor:
            cursor.execute(sql)
    assert triggers() == before
