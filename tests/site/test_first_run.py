from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from accounts.models import Role, User
from dedupfs_site import demo, first_run
from libraries.models import LibraryRoot
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def state(tmp_path: Path, settings: Settings) -> Path:
    settings.STATE_ROOT = tmp_path
    return tmp_path


def test_first_admin_is_made_once() -> None:
    password = first_run.create_first_admin()
    assert password is not None
    admin = User.objects.get()
    assert (admin.username, admin.role, admin.must_change_password) == ("admin", Role.ADMIN, True)
    assert admin.check_password(password)
    assert first_run.create_first_admin() is None
    assert User.objects.get().password == admin.password


def test_first_admin_is_not_made_where_somebody_can_log_in() -> None:
    factories.user("vera")
    assert first_run.create_first_admin() is None
    assert [str(user) for user in User.objects.all()] == ["vera"]


def test_demo_is_set_up_once_and_not_again_after_its_removal(state: Path) -> None:
    assert first_run.decide_demo(wanted=True)
    library = LibraryRoot.objects.get()
    assert (library.name, library.root_path) == ("Demo", str(state / "libraries" / "demo"))
    assert library.state.mount == "present"
    assert (state / "libraries" / "demo" / "Notes" / "welcome.txt").is_file()
    LibraryRoot.objects.all().delete()
    assert not first_run.decide_demo(wanted=True)
    assert not LibraryRoot.objects.exists()


def test_refusing_the_demo_counts_as_decided(state: Path) -> None:
    assert not first_run.decide_demo(wanted=False)
    assert not first_run.decide_demo(wanted=True)
    assert not LibraryRoot.objects.exists()
    assert list(state.iterdir()) == []


def test_demo_is_not_set_up_beside_libraries_that_exist(state: Path) -> None:
    factories.library("photos")
    assert not first_run.decide_demo(wanted=True)
    assert [library.name for library in LibraryRoot.objects.all()] == ["photos"]
    assert list(state.iterdir()) == []


def test_demo_survives_a_start_that_was_killed_before_the_decision(state: Path) -> None:
    demo.build(state / "libraries" / "demo")
    (state / "libraries" / "demo" / "mine.txt").write_text("put here meanwhile")
    assert first_run.decide_demo(wanted=True)
    assert (state / "libraries" / "demo" / "mine.txt").read_text() == "put here meanwhile"


def test_demo_holds_the_cases_it_is_for(tmp_path: Path) -> None:
    demo.build(tmp_path / "demo")
    files = {path: path.read_bytes() for path in (tmp_path / "demo").rglob("*") if path.is_file()}
    copies = Counter(hashlib.sha256(content).hexdigest() for content in files.values() if content)
    assert sorted(copies.values()) == [1, 1, 1, 2, 2, 2, 3]
    left, right = (next(files[path] for path in files if path.name == name) for name in ("left.wav", "right.wav"))
    assert (len(left), left[:65536], left[-65536:]) == (len(right), right[:65536], right[-65536:])
    assert left != right
    assert b"" in files.values()
    assert any("ü" in path.name for path in files)
