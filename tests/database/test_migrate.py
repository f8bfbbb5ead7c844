from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import Settings

from database.errors import BackupFailed, NewerDatabase
from database.migrating import migrate_with_backup, refuse_newer_database
from database.objects import drift, make_room_before_migrate
from jobs.recovery_counting import RECOVERIES
from logbook.models import LogbookEvent, write_event
from tests import factories
from tests.database.installations import Installation
from tests.database.legacy import old_database
from thumbnails.render_counting import RENDERS

MIGRATE = "from database.migrating import migrate_with_backup as m; m(print)"


@pytest.fixture
def state(tmp_path: Path, settings: Settings) -> Path:
    settings.STATE_ROOT = tmp_path
    return tmp_path


@pytest.fixture
def older_database(transactional_db: None) -> Iterator[None]:
    """The test's database as a version without sessions left it."""
    call_command("migrate", "sessions", "zero", verbosity=0)
    yield
    call_command("migrate", verbosity=0)


@pytest.fixture
def newer_database(transactional_db: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """The test's database after a version that knows one more migration."""
    recorder = MigrationRecorder(connections["default"])
    recorder.record_applied(*request.param)
    yield
    recorder.record_unapplied(*request.param)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "newer_database", [("jobs", "9999_later"), ("auth", "9999_later"), ("albums", "0001_initial")], indirect=True
)
def test_a_database_newer_than_the_code_is_refused(newer_database: None, state: Path) -> None:
    with pytest.raises(NewerDatabase) as refused:
        refuse_newer_database()
    assert "newer than this version" in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(NewerDatabase):
        migrate_with_backup(lambda _: None)
    assert list(state.iterdir()) == []


@pytest.mark.django_db
def test_migrate_backs_up_first_and_tells_of_each_step(older_database: None, state: Path) -> None:
    lines: list[str] = []
    migrate_with_backup(lines.append)
    (backup,) = (state / "backups").iterdir()
    assert backup.name.startswith("before-migrate-")
    assert backup.stat().st_size > 0
    assert str(backup) in lines[1]
    assert [line.strip() for line in lines if "Applying" in line] == ["Applying sessions.0001_initial... OK"]
    assert drift(connections["default"]) == []
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM django_session")


@pytest.mark.django_db
def test_migrate_with_nothing_to_do_puts_a_lost_trigger_back(state: Path) -> None:
    connection = connections["default"]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER logbook_jobs_insert")
        else:
            cursor.execute("DROP TRIGGER logbook_jobs_trigger ON jobs")
    lines: list[str] = []
    migrate_with_backup(lines.append)
    assert drift(connection) == []
    assert len(lines) == 1
    assert "logbook_jobs" in lines[0]
    assert list(state.iterdir()) == []
    migrate_with_backup(lines.append)
    assert len(lines) == 1


@pytest.mark.django_db
def test_migrate_stops_when_no_backup_can_be_written(older_database: None, state: Path) -> None:
    (state / "backups").write_text("in the way")
    with pytest.raises(BackupFailed, match="no backup could be written there"):
        migrate_with_backup(lambda _: None)
    with connections["default"].cursor() as cursor:
        assert "django_session" not in connections["default"].introspection.table_names(cursor)


def test_a_fresh_database_is_migrated_without_a_backup(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    done = installation.manage("shell", "--no-imports", "-c", MIGRATE)
    assert done.returncode == 0, done.stderr
    assert "Applying jobs.0001_initial... OK" in done.stdout
    assert "backups" not in installation.names()
    assert installation.rows("SELECT COUNT(*) FROM jobs") == [(0,)]


def test_migrate_sends_an_old_implementation_s_file_to_adopt(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    with old_database(installation.database) as database:
        database.library()
    done = installation.manage("shell", "--no-imports", "-c", MIGRATE)
    assert done.returncode != 0
    assert "run `manage.py adopt`" in done.stderr
    assert installation.rows("SELECT COUNT(*) FROM sqlite_master WHERE name = 'django_migrations'") == [(0,)]


@pytest.mark.django_db
def test_events_of_an_older_version_get_the_kind_of_their_item() -> None:
    """Triggers of every watched table write into the table that this migration makes anew on SQLite."""
    job = factories.finished_job("hash")
    write_event("supervisor", "nas", "consumer_restarted")
    kinds = list(LogbookEvent.objects.order_by("pk").values_list("pk", "item_type"))
    assert {kind for _, kind in kinds} == {"jobs", "supervisor"}
    try:
        _forget_kinds()
    finally:
        call_command("migrate", verbosity=0)
    assert list(LogbookEvent.objects.order_by("pk").values_list("pk", "item_type")) == kinds
    assert drift(connections["default"]) == []
    job.delete()
    assert LogbookEvent.objects.latest("pk").item_type == "jobs", "triggers write again"


def _forget_kinds() -> None:
    """As the version before left it, with a trigger of that version."""
    connection = connections["default"]
    make_room_before_migrate(using="default", plan=[object()])
    with connection.cursor() as cursor:
        for each in (*RECOVERIES.objects, *RENDERS.objects):
            cursor.execute(each.drop)
    MigrationExecutor(connection).migrate([("logbook", "0001_initial")])
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TRIGGER logbook_jobs_update AFTER UPDATE OF status ON jobs BEGIN INSERT INTO logbook_events"
                " (item_id, event_type) SELECT id, 'status' FROM logbook_items WHERE subject_id = NEW.id; END"
            )
