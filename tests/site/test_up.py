"""`manage.py up` with real processes and signals, on SQLite of its own whatever the run uses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from accounts.models import User
from dedupfs_site import starting
from libraries.models import LibraryRoot
from tests.site.running import Up, content, descendants, environment, is_alive, refused, rows
from tests.waiting import until

StartUp = Callable[..., Up]


@dataclass(frozen=True)
class FirstStart:
    """What the very first `up` on a fresh folder left and said."""

    state: Path
    output: str

    @property
    def password(self) -> str:
        found = re.search(r"^ +password +(\S+)$", self.output, re.MULTILINE)
        assert found is not None, self.output
        return found[1]


@pytest.fixture(scope="module")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> FirstStart:
    folder = tmp_path_factory.mktemp("first")
    up = Up(environment(folder / "state"), folder / "log")
    try:
        up.wait_ready()
        assert up.stop() == 0, up.output
    finally:
        up.kill_all()
    return FirstStart(folder / "state", up.output)


@pytest.fixture
def state(first_start: FirstStart, tmp_path: Path) -> Path:
    """A state folder that has been used before."""
    return Path(shutil.copytree(first_start.state, tmp_path / "state"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartUp]:
    started: list[Up] = []

    def start(environment: dict[str, str], *arguments: str) -> Up:
        up = Up(environment, tmp_path / f"log{len(started)}", arguments)
        started.append(up)
        return up.wait_ready()

    yield start
    for up in started:
        up.kill_all()


# --- The first start and the ones after it ----------------------------------------------------------------


def test_first_start_prints_a_password_that_logs_in_and_must_be_changed(
    first_start: FirstStart, state: Path, start: StartUp
) -> None:
    up = start(environment(state))
    wrong = up.log_in("admin", first_start.password + "x")
    assert "dedupfs_session" not in wrong.cookies
    right = up.log_in("admin", first_start.password)
    assert right.status == 302
    assert "dedupfs_session" in right.cookies
    elsewhere = up.get("/jobs/", right.cookies)
    assert (elsewhere.status, elsewhere.location) == (302, "/account/password/")


def test_first_start_makes_an_admin_a_private_key_and_a_demo_library(first_start: FirstStart) -> None:
    state = first_start.state
    assert rows(state, "SELECT username, role, must_change_password FROM accounts_user") == [("admin", "admin", 1)]
    assert (state / "secret_key").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert rows(state, "SELECT name, root_path FROM library_roots") == [("Demo", str(state / "libraries" / "demo"))]
    assert first_start.password not in "".join(map(str, content(state).values()))


def test_second_start_changes_nothing_and_brings_no_removed_demo_back(state: Path, start: StartUp) -> None:
    shutil.rmtree(state / "libraries")
    with closing(sqlite3.connect(state / "dedupfs.sqlite3")) as connection, connection:
        connection.execute("DELETE FROM library_states")
        connection.execute("DELETE FROM library_roots")
    before = content(state), (state / "secret_key").read_text()
    up = start(environment(state))
    assert up.stop() == 0
    assert (content(state), (state / "secret_key").read_text()) == before
    assert not (state / "libraries").exists()
    assert "password" not in up.output
    assert "Applying" not in up.output


@pytest.mark.django_db
def test_up_serves_the_database_of_this_run(child_environment: dict[str, str], tmp_path: Path, start: StartUp) -> None:
    up = start(environment(tmp_path / "state", DATABASE_URL=child_environment["DATABASE_URL"]), "--no-demo")
    assert [str(user) for user in User.objects.all()] == ["admin"]
    assert not LibraryRoot.objects.exists()
    alive = until(lambda: _health(up) if _health(up)["consumers_alive"] == 1 else None, "a consumer that is alive")
    assert alive["status"] == "ok"
    assert up.stop() == 0


# --- Stopping and dying -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_both_children(number: signal.Signals, state: Path, start: StartUp) -> None:
    up = start(environment(state))
    below = list(descendants(up.process.pid))
    assert len(below) >= 3  # gunicorn, its worker, the consumer
    assert up.stop(number) == 0
    assert [pid for pid in below if is_alive(pid)] == []
    assert "Traceback" not in up.output


def test_a_killed_child_is_started_again_and_health_says_so(state: Path, start: StartUp) -> None:
    up = start(environment(state))
    for name, part in (("consumer", "run_huey"), ("web", "gunicorn")):
        killed = up.child(part)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        until(partial(_has_other_child, up, part, killed), f"a new {name}")
        event = until(partial(_event, state, f"{name}_restarted"), f"the event for the {name}")
        assert json.loads(event) == {"exit": "SIGKILL"}
    until(lambda: _answers(up), "the new web server")
    assert _health(up)["consumer_restarts_24h"] == 1
    assert up.stop() == 0


def test_children_do_not_outlive_a_killed_supervisor(state: Path, start: StartUp) -> None:
    up = start(environment(state))
    below = list(descendants(up.process.pid))
    assert len(below) >= 3
    up.process.kill()
    up.process.wait()
    until(lambda: not any(is_alive(pid) for pid in below), "the end of every child")


# --- Refusals ---------------------------------------------------------------------------------------------


def test_up_refuses_a_taken_port(state: Path) -> None:
    chosen = environment(state)
    with socket.create_server(("127.0.0.1", int(chosen["PORT"]))):
        answer = refused(chosen)
    assert answer.returncode == 2
    assert answer.stderr == (
        f"dedupfs: port {chosen['PORT']} on 127.0.0.1 is taken by another program:"
        " stop that one, or choose another with PORT=…\n"
    )


def test_up_refuses_an_address_of_another_machine(state: Path) -> None:
    answer = refused(environment(state, DEDUPFS_BIND="192.0.2.1"))
    assert answer.returncode == 2
    assert answer.stderr == "dedupfs: DEDUPFS_BIND=192.0.2.1 is no address of this machine\n"


def test_up_refuses_a_state_folder_that_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    answer = refused(environment(tmp_path / "file" / "state"))
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"dedupfs: DEDUPFS_STATE_ROOT={tmp_path}/file/state can't be used")
    assert answer.stderr.count("\n") == 1


def test_up_refuses_a_state_folder_that_is_in_use(state: Path, start: StartUp) -> None:
    up = start(environment(state))
    answer = refused(environment(state))
    assert answer.returncode == 2
    assert answer.stderr == (f"dedupfs: DedupFS already runs on the state folder {state} (process {up.process.pid})\n")
    assert _health(up)["status"] in ("ok", "degraded")


def test_up_refuses_a_database_newer_than_the_code(state: Path) -> None:
    with closing(sqlite3.connect(state / "dedupfs.sqlite3")) as connection, connection:
        connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_future', '2030-01-01')"
        )
    before = content(state)
    answer = refused(environment(state))
    assert answer.returncode == 2
    assert answer.stderr.startswith("dedupfs: the database is newer than this version of DedupFS")
    assert answer.stderr.count("\n") == 1
    assert content(state) == before


def test_up_refuses_sqlite_on_a_network_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mounts = tmp_path / "mountinfo"
    share = f"40 27 0:50 / {settings.STATE_ROOT.parent} rw - nfs4 nas:/export rw"
    mounts.write_text(f"27 1 254:0 / / rw - ext4 /dev/vda rw\n{share}\n")
    monkeypatch.setattr(starting, "MOUNTS", mounts)
    with pytest.raises(SystemExit) as refusal:
        call_command("up")
    assert refusal.value.code == 2
    line = capsys.readouterr().err
    assert "on a network filesystem (nfs4)" in line
    assert line.count("\n") == 1


def _health(up: Up) -> dict[str, object]:
    answer: dict[str, object] = json.loads(up.get("/health").body)
    return answer


def _answers(up: Up) -> bool:
    try:
        return bool(up.get("/health"))
    except OSError:
        return False


def _has_other_child(up: Up, part: str, than: int) -> bool:
    return up.child(part) not in (None, than)


def _event(state: Path, event_type: str) -> str | None:
    found = rows(state, f"SELECT payload_json FROM logbook_events WHERE event_type = '{event_type}'")
    return found[0][0] if found else None
