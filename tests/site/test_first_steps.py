"""The first steps: what the page says in each state, what its forms do, what becomes of the demo, what it costs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.template import Context, Template
from django.test import Client
from pytest_django.fixtures import Settings

from accounts.models import Role, User
from database.clock import SecondsFromNow
from dedupfs_site import demo, first_run
from jobs.models import Job, WorkerHeartbeat
from libraries import queueing, removing
from libraries.models import HashRun, HashState, LibraryRoot, LibraryState, ScanRequest, ScanSession
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests import factories
from tests.duplicates.contents import copies
from tests.pages import HTMX, QueryCounter, logged_in, text_of, words_of
from tests.tree import tree

pytestmark = pytest.mark.django_db
ADDRESS = "/first-steps/"
ASKS = f'hx-get="{ADDRESS}"'
NEW = "a longer stable name"


@pytest.fixture
def disk(tmp_path: Path, settings: Settings) -> Path:
    """The libraries' root of this test; the state folder lies beside it."""
    settings.STATE_ROOT = tmp_path / "own"
    settings.LIBRARIES_ROOTS = [tmp_path / "disk"]
    for folder in ("own", "disk/photos/2024"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "disk"


@pytest.fixture
def admin() -> Client:
    return logged_in(Role.ADMIN)


def key(path: Path) -> str:
    return os.fsencode(path).hex()


def words(client: Client, address: str = ADDRESS, **headers: str) -> str:
    return words_of(text_of(client, address, **headers))


def consumer() -> None:
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")


def added(disk: Path, **fields: Any) -> LibraryRoot:
    library = factories.library("photos", str(disk / "photos"), **fields)
    LibraryState.objects.create(library=library, mount="present")
    return library


def scanning(library: LibraryRoot, **seen: Any) -> Job:
    queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor="ada")
    lease = Job.objects.claim("nas:7")
    assert lease is not None
    ScanSession.objects.create(library=library, job_id=lease.row.pk, started_at=SecondsFromNow(-10), **seen)
    return lease.row


def hashing() -> None:
    job, _lease = factories.running_job("hash")
    HashRun.objects.create(job=job, files_done=3, files_total=10, bytes_done=250, bytes_total=1000, busy_seconds=5)


def scanned(library: LibraryRoot) -> None:
    LibraryRoot.objects.filter(pk=library.pk).update(last_scanned_at=SecondsFromNow(-5))
    LibraryState.objects.filter(pk=library.pk).update(file_count=1_234, total_bytes=5_000_000)


def states(client: Client) -> list[str]:
    return re.findall(r'class="step is-(\w+)"', text_of(client, ADDRESS))


# --- Getting there ----------------------------------------------------------------------------------------
def chosen(role: Role) -> str:
    client = Client()
    client.force_login(factories.user(role.value, role, must_change_password=True))
    answer = client.post("/account/password/", {"new_password1": NEW, "new_password2": NEW}, follow=True)
    return answer.redirect_chain[-1][0] if answer.redirect_chain else ""


def test_a_new_admin_is_led_here_and_others_are_not(disk: Path) -> None:
    first_run.decide_demo(wanted=True)
    assert chosen(Role.ADMIN) == ADDRESS
    assert chosen(Role.OPERATOR) != ADDRESS
    added(disk)
    User.objects.all().delete()
    assert chosen(Role.ADMIN) != ADDRESS


def test_begin_leads_home_where_there_is_a_library(disk: Path, admin: Client) -> None:
    assert admin.get(f"{ADDRESS}begin/")["Location"] == ADDRESS
    added(disk)
    assert admin.get(f"{ADDRESS}begin/")["Location"] == "/"


# --- What it says -----------------------------------------------------------------------------------------
def test_an_empty_installation_shows_folders_to_an_admin(disk: Path, admin: Client) -> None:
    html = text_of(admin, ADDRESS)
    assert states(admin) == ["now", "later", "later", "later"]
    assert f'href="{ADDRESS}?folder={key(disk / "photos")}"' in html
    assert "No consumer is alive" in words_of(html)
    assert "Set up the demo library" in html
    assert ASKS not in html
    consumer()
    assert "No consumer is alive" not in words(admin)


def test_others_see_no_folders_and_no_forms(disk: Path, viewer: Client, operator: Client) -> None:
    first_run.decide_demo(wanted=True)
    for client in (viewer, operator):
        html = text_of(client, f"{ADDRESS}?folder={key(disk)}")
        assert "An admin adds the first one" in html
        assert "2024" not in html
        assert "Add and scan" not in html
        assert "Remove the demo library" not in html
    assert "Try it" in text_of(operator, ADDRESS)
    assert "Try it" not in text_of(viewer, ADDRESS)


def test_without_a_root_people_are_told_how_to_set_one(disk: Path, admin: Client, settings: Settings) -> None:
    assert "DEDUPFS_LIBRARIES_ROOT" not in text_of(admin, ADDRESS)
    settings.LIBRARIES_ROOTS = [settings.STATE_ROOT / "libraries"]
    first_run.decide_demo(wanted=True)
    said = words(admin)
    assert "Nobody has said yet where your files are" in said
    assert "DEDUPFS_LIBRARIES_ROOT=/srv/files" in said
    assert "is the library “Demo”" in said


def test_the_open_folder_is_the_one_that_is_added(disk: Path, admin: Client) -> None:
    html = text_of(admin, f"{ADDRESS}?folder={key(disk / 'photos')}")
    assert f'<input type="hidden" name="folder" value="{key(disk / "photos")}">' in html
    assert 'value="photos"' in html
    assert re.search(r'name="role" value="normal" checked', html)


def test_add_and_scan_does_both_and_shows_the_progress(disk: Path, admin: Client) -> None:
    sent = {"folder": key(disk / "photos"), "name": "My photos", "role": "backup"}
    answer = admin.post(f"{ADDRESS}add/", sent)
    assert (answer.status_code, answer["Location"]) == (302, ADDRESS)
    library = LibraryRoot.objects.get()
    assert (library.name, library.role, library.root_path) == ("My photos", "backup", str(disk / "photos"))
    request = ScanRequest.objects.get()
    assert (request.library_id, request.priority, request.requested_by) == (library.pk, 1, "admin")
    html = text_of(admin, ADDRESS)
    assert "“My photos” is added, and its first scan is asked for." in words_of(html)
    assert "Scan is next, waits for a consumer" in words_of(html)
    assert ASKS in html
    assert states(admin) == ["done", "now", "later", "later"]


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"name": ""}, "This field is required"),
        ({"name": "taken"}, "There is a library “taken” already"),
        ({"role": "king"}, "Select a valid choice"),
        ({"folder": "zz"}, "no folder below"),
        ({"folder": b"/etc".hex()}, "no folder below"),
        ({"folder": ""}, "Nothing was added"),
    ],
)
def test_what_can_not_be_added_is_said_and_nothing_is(
    disk: Path, admin: Client, sent: dict[str, str], said: str
) -> None:
    factories.library("taken")
    form = {"folder": key(disk / "photos"), "name": "n", "role": "normal", **sent}
    answer = admin.post(f"{ADDRESS}add/", form)
    assert answer.status_code == 200
    assert said in words_of(answer.content.decode())
    assert (LibraryRoot.objects.count(), ScanRequest.objects.count()) == (1, 0)


def test_a_folder_that_is_taken_meanwhile_is_refused_where_it_was_chosen(disk: Path, admin: Client) -> None:
    added(disk)
    answer = admin.post(f"{ADDRESS}add/", {"folder": key(disk / "photos" / "2024"), "name": "n", "role": "normal"})
    said = words_of(answer.content.decode())
    assert "lies inside the library “photos”" in said
    assert str(disk / "photos" / "2024") in said


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_admins_add_and_decide_about_the_demo(disk: Path, role: Role) -> None:
    first_run.decide_demo(wanted=True)
    client = logged_in(role)
    for address in ("add/", "demo/remove/", "demo/bring/"):
        assert client.post(ADDRESS + address, {"folder": key(disk / "photos"), "name": "n"}).status_code == 403
    assert [library.name for library in LibraryRoot.objects.kept()] == ["Demo"]


# --- How far it is ----------------------------------------------------------------------------------------
def test_a_scan_is_followed_on_the_page(disk: Path, viewer: Client) -> None:
    consumer()
    scanning(added(disk), files_seen=1_200, bytes_seen=5_000_000)
    html = text_of(viewer, ADDRESS)
    assert "Walking through the folder · 1,200 files so far · 5.0 MB" in words_of(html)
    assert ASKS in html
    part = text_of(viewer, ADDRESS, **HTMX)
    assert "<html" not in part
    assert ASKS in part
    assert 'id="running-now"' in part
    assert states(viewer) == ["done", "now", "later", "later"]


def test_first_groups_show_while_hashing_still_runs(disk: Path, viewer: Client) -> None:
    library = added(disk)
    scanned(library)
    for number in range(7):
        copies(f"{number}", f"a{number}.jpg", f"b{number}.jpg", in_library=library, size=1_000 * (number + 1))
    hashing()
    html = text_of(viewer, ADDRESS)
    said = words_of(html)
    assert "Reading the files that may have a twin · 250 B read" in said
    assert "The first duplicates 25.0 kB to win back in these" in said
    assert re.findall(r"a(\d)\.jpg", html) == ["6", "5", "4", "3", "2"]
    assert states(viewer) == ["done", "done", "now", "done"]
    assert ASKS in html
    assert "Hint 1 of 3" in said


def test_asking_ends_when_all_is_read(disk: Path, viewer: Client) -> None:
    library = added(disk)
    scanned(library)
    html = text_of(viewer, ADDRESS)
    assert ASKS not in html
    assert "Scanned and compared. · 1,234 files, 5.0 MB" in words_of(html)
    assert "No two files that were scanned have the same content" in words_of(html)
    assert "Hint" not in html
    assert states(viewer) == ["done"] * 4
    HashState.objects.update_or_create(pk=1, defaults={"is_due": True, "algorithm": "blake3"})
    html = text_of(viewer, ADDRESS)
    assert (ASKS in html, "begins by itself" in words_of(html)) == (True, True)
    HashState.objects.update(is_paused=True)
    html = text_of(viewer, ADDRESS)
    assert (ASKS in html, "Hashing is paused" in words_of(html)) == (False, True)


def test_a_scan_that_failed_says_why_and_offers_another(disk: Path, operator: Client) -> None:
    library = added(disk)
    ScanSession.objects.create(library=library, status="failed", error_message="the disk went away <b>")
    html = text_of(operator, ADDRESS)
    assert "the disk went away &lt;b&gt;" in html
    assert ASKS not in html
    assert operator.post(f"{ADDRESS}scan/{library.pk}/")["Location"] == ADDRESS
    assert ScanRequest.objects.get().library_id == library.pk
    assert operator.post(f"{ADDRESS}scan/{library.pk + 99}/").status_code == 404


def test_a_library_that_nobody_scanned_can_be(disk: Path, operator: Client, viewer: Client) -> None:
    added(disk)
    assert "Scan it now" in text_of(operator, ADDRESS)
    assert "Scan it now" not in text_of(viewer, ADDRESS)


def test_another_folder_can_be_added_beside(disk: Path, admin: Client) -> None:
    scanned(added(disk))
    assert "Choose another folder" not in text_of(admin, ADDRESS)
    html = text_of(admin, f"{ADDRESS}?folder=")
    assert "Choose another folder" in html
    assert "is the library “photos”" in html


def test_a_poll_never_asks_the_disk(disk: Path, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    scanning(added(disk))
    monkeypatch.setattr("libraries.asking.ask", None)
    assert "Walking" in text_of(admin, f"{ADDRESS}?folder={key(disk)}", **HTMX)
    assert "Walking" in text_of(admin, ADDRESS)


# --- The tour ---------------------------------------------------------------------------------------------
def test_three_hints_by_plain_links_and_each_person_dismisses_their_own(disk: Path, viewer: Client) -> None:
    library = added(disk)
    scanned(library)
    copies("1", "a", "b", in_library=library)
    titles = ["A group is one content", "Rules say which copy stays", "A plan comes before anything happens"]
    for number, title in enumerate(titles, 1):
        html = text_of(viewer, f"{ADDRESS}?hint={number}")
        assert title in html
        assert (f"?hint={number + 1}#tour" in html) == (number < 3)
        assert (f"?hint={number - 1}#tour" in html) == (number > 1)
    assert viewer.get(f"{ADDRESS}?hint=done")["Location"] == ADDRESS
    html = text_of(viewer, ADDRESS)
    assert titles[0] not in html
    assert "Show the three hints again" in html
    assert titles[0] in text_of(viewer, f"{ADDRESS}?hint=1")
    assert titles[0] in text_of(logged_in(Role.OPERATOR), ADDRESS)


@pytest.mark.parametrize("hint", ["0", "4", "x", "-1", "²", "\x00"])
def test_there_is_no_other_hint(viewer: Client, disk: Path, hint: str) -> None:
    assert viewer.get(ADDRESS, {"hint": hint}).status_code == 404


def test_a_poll_keeps_the_hint_that_is_read(disk: Path, viewer: Client) -> None:
    library = added(disk)
    scanning(library)
    copies("1", "a", "b", in_library=library)
    part = text_of(viewer, f"{ADDRESS}?hint=2", **HTMX)
    assert f'hx-get="{ADDRESS}?hint=2"' in part
    assert "Hint 2 of 3" in words_of(part)


def test_what_comes_next_is_linked(disk: Path, operator: Client, viewer: Client) -> None:
    copies("1", "a", "b", in_library=added(disk))
    html = text_of(operator, ADDRESS)
    for address in ("/duplicates/", "/rules/", "/plans/new/"):
        assert f'href="{address}"' in html
        assert operator.get(address).status_code == 200
    assert 'href="/plans/new/"' not in text_of(viewer, ADDRESS)


# --- The demo ---------------------------------------------------------------------------------------------
@pytest.fixture
def demo_folder(disk: Path) -> Path:
    assert first_run.decide_demo(wanted=True)
    return first_run.demo_folder()


def test_the_demo_goes_with_one_click_and_all_that_was_made_for_it(demo_folder: Path, admin: Client) -> None:
    library = LibraryRoot.objects.get()
    queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor="ada")
    answer = admin.post(f"{ADDRESS}demo/remove/", follow=True)
    assert "The demo library is removed, with the files that were made for it." in words_of(answer.content.decode())
    assert not demo_folder.exists()
    assert not LibraryRoot.objects.kept().exists()
    removing.carry_on()
    assert not LibraryRoot.objects.exists()
    event = LogbookEvent.objects.get(event_type="demo_removed")
    assert (event.actor, event.payload_json) == ("admin", {"files_kept": 0})
    assert admin.post(f"{ADDRESS}demo/remove/").status_code == 404
    assert not first_run.decide_demo(wanted=True), "it never comes back by itself"


def put_file(folder: Path) -> None:
    (folder / "Photos" / "mine.jpg").write_bytes(b"mine")


def change_file(folder: Path) -> None:
    (folder / "Notes" / "welcome.txt").write_text("my own notes now")


def put_link(folder: Path) -> None:
    (folder / "Notes" / "welcome.txt").unlink()
    (folder / "Notes" / "welcome.txt").symlink_to(folder / "Notes" / "welcome (copy).txt")


def put_folder_link(folder: Path) -> None:
    (folder / "elsewhere").symlink_to(folder.parent.parent)


def put_name_that_is_no_text(folder: Path) -> None:
    (Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9"))).write_bytes(b"1")


@pytest.mark.parametrize("touch", [put_file, change_file, put_link, put_folder_link, put_name_that_is_no_text])
def test_a_demo_folder_that_somebody_used_stays_whole(
    demo_folder: Path, admin: Client, touch: Callable[[Path], None]
) -> None:
    touch(demo_folder)
    before = sorted(os.walk(os.fsencode(demo_folder)))
    answer = admin.post(f"{ADDRESS}demo/remove/", {"from": "library"}, follow=True)
    said = words_of(answer.content.decode())
    assert answer.redirect_chain[-1][0] == "/libraries/"
    assert f"Its folder {demo_folder} stays as it is: 1 file in it is not one that we made" in said
    assert sorted(os.walk(os.fsencode(demo_folder))) == before
    assert not LibraryRoot.objects.kept().exists()


def test_copies_that_were_removed_do_not_keep_the_demo(demo_folder: Path, admin: Client) -> None:
    (demo_folder / "Notes" / "welcome (copy).txt").unlink()
    (demo_folder / ".dedupfs-trash" / "1").mkdir(parents=True)
    admin.post(f"{ADDRESS}demo/remove/")
    assert not demo_folder.exists()


def test_a_demo_whose_trash_holds_files_is_not_removed(demo_folder: Path, admin: Client) -> None:
    tree(demo_folder, {".dedupfs-trash/1": b"x"})
    answer = admin.post(f"{ADDRESS}demo/remove/", follow=True)
    assert "Empty it or undo first" in words_of(answer.content.decode())
    assert LibraryRoot.objects.kept().count() == 1
    assert demo_folder.exists()


def test_a_folder_that_is_a_link_is_not_emptied(tmp_path: Path) -> None:
    demo.build(tmp_path / "real")
    (tmp_path / "demo").symlink_to(tmp_path / "real")
    assert demo.take_away(tmp_path / "demo") == ["demo"]
    assert (tmp_path / "real" / "Notes" / "welcome.txt").exists()
    assert demo.take_away(tmp_path / "none") == []


def test_the_demo_can_be_had_again(demo_folder: Path, admin: Client) -> None:
    admin.post(f"{ADDRESS}demo/remove/")
    assert "Set up the demo library" in text_of(admin, ADDRESS)
    admin.post(f"{ADDRESS}demo/bring/")
    library = LibraryRoot.objects.kept().get()
    assert (library.name, library.root_path) == ("Demo", str(demo_folder))
    assert ScanRequest.objects.filter(library=library, status="pending").exists()
    assert (demo_folder / "Photos" / "2023" / "hills.jpg").is_file()
    answer = admin.post(f"{ADDRESS}demo/bring/", follow=True)
    assert "already" in words_of(answer.content.decode())


def test_the_demo_is_known_by_its_folder_whatever_its_name(demo_folder: Path) -> None:
    LibraryRoot.objects.update(name="Renamed")
    other = factories.library("Demo", to_text(os.fsencode(demo_folder.parent / "demo2")))
    assert [first_run.is_demo(library) for library in (LibraryRoot.objects.get(name="Renamed"), other)] == [True, False]
    shown = Template("{% load demo %}{{ library|is_demo }}").render(Context({"library": other}))
    assert shown == "False"


# --- What it costs ----------------------------------------------------------------------------------------
def cost(client: Client, **headers: str) -> int:
    text_of(client, ADDRESS, **headers)  # what is new is counted by whoever comes first
    counter = QueryCounter()
    with connection.execute_wrapper(counter):
        text_of(client, ADDRESS, **headers)
    return counter.count


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "poll"])
def test_the_page_costs_the_same_however_much_there_is(disk: Path, viewer: Client, headers: dict[str, str]) -> None:
    library = added(disk)
    scanned(library)
    hashing()
    copies("0", "a", "b", in_library=library)
    before = cost(viewer, **headers)
    for number in range(20):
        other = factories.library(f"{number}")
        LibraryState.objects.create(library=other)
        copies(f"x{number}", "a", "b", "c", in_library=other)
    assert cost(viewer, **headers) == before <= 24
