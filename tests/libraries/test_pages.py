from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from database.clock import SecondsFromNow
from jobs.models import Job, WorkerHeartbeat
from libraries import changing, queueing
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanError, ScanRequest, ScanSession
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import HTMX, text_of, words_of

pytestmark = pytest.mark.django_db

HIGH = ScanRequest.Priority.HIGH
HOSTILE = to_text(b"caf\xe9 <script>alert(1)</script>\n" + b"W" * 200 + b".jpg")


@pytest.fixture
def roots(tmp_path: Path, settings: Settings) -> Path:
    """Where libraries may lie in this test."""
    settings.LIBRARIES_ROOTS = [tmp_path]
    (tmp_path / "photos").mkdir()
    return tmp_path


def known(name: str = "photos", **state: Any) -> LibraryRoot:
    """A library that executors have looked at."""
    library = factories.library(name)
    LibraryState.objects.create(library=library, **{"mount": "present", "checked_at": SecondsFromNow(-60), **state})
    return library


def scanning(library: LibraryRoot, **seen: Any) -> ScanSession:
    """A scan of it that was asked for, taken and has begun to walk."""
    queueing.submit(library.pk, HIGH, actor="otto")
    assert Job.objects.claim("nas:7") is not None
    request = queueing.current(library.pk)
    assert request is not None
    started = {"started_at": SecondsFromNow(-100), "updated_at": SecondsFromNow(0)}
    return ScanSession.objects.create(library=library, job=request.job, **started, **seen)


def row_of(html: str, library: LibraryRoot) -> str:
    found = re.search(rf'<tr id="library-{library.pk}">.*?</tr>', html, flags=re.S)
    assert found is not None
    return words_of(found[0])


def form(**changes: Any) -> dict[str, Any]:
    return {"name": "photos", "role": "normal", "schedule": "none", "exclude_patterns": ".git", **changes}


# --- The list ---------------------------------------------------------------------------------------------
def test_list_without_libraries_says_what_to_do_next(viewer: Client, admin: Client) -> None:
    assert 'class="button button-main" href="/first-steps/"' in text_of(admin, "/libraries/")
    html = text_of(viewer, "/libraries/")
    assert "No libraries yet" in html
    assert "/libraries/add/" not in html
    assert "/first-steps/" not in html


def test_list_shows_every_column_of_a_library(viewer: Client) -> None:
    library = known(file_count=284_310, total_bytes=18_200_000_000_000, error_count=3, is_writable=False)
    changed = {"role": "backup", "scan_interval_minutes": 360}
    changing.change(library.pk, actor="ada", **changed)
    LibraryRoot.objects.filter(pk=library.pk).update(last_scanned_at=SecondsFromNow(-7205))
    row = row_of(text_of(viewer, "/libraries/"), library)
    for part in ("photos", "/libraries/photos", "Backup", "284,310", "18.2 TB", " 3 ", "2 h ago", "in 5 h", "Present"):
        assert part in row, part
    assert "findings only" in row
    assert "looked 1 min ago" in row


def test_list_shows_what_is_known_of_the_disk(viewer: Client) -> None:
    words = {"absent": "Absent", "empty": "Empty", "different": "Different disk", "unknown": "Not seen yet"}
    libraries = {mount: known(mount, mount=mount, mount_note="It is so because of this.") for mount in words}
    html = text_of(viewer, "/libraries/")
    for mount, word in words.items():
        row = row_of(html, libraries[mount])
        assert word in row
        assert ("because of this" in row) == (mount != "unknown")


def test_list_shows_a_library_that_nobody_has_looked_at(viewer: Client) -> None:
    library = factories.library("new")
    row = row_of(text_of(viewer, "/libraries/"), library)
    assert "Not seen yet" in row
    assert "never" in row


def test_list_shows_hostile_names_whole_and_harmless(viewer: Client) -> None:
    factories.library("<b>bold</b>" + "n" * 240, f"/libraries/{HOSTILE}")
    html = text_of(viewer, "/libraries/")
    assert "<script>alert" not in html
    assert "<b>bold" not in html
    assert "caf\\xe9 &lt;script&gt;" in html
    assert "WWW.jpg" in html


def test_list_leaves_out_what_is_being_removed(viewer: Client) -> None:
    library = known()
    LibraryRoot.objects.filter(pk=library.pk).update(removing_at=SecondsFromNow(0))
    assert "No libraries yet" in text_of(viewer, "/libraries/")
    assert viewer.get(f"/libraries/{library.pk}/").status_code == 404


def test_list_shows_a_running_scan_against_the_last_one(viewer: Client) -> None:
    library = known(walked_files=1_000, walked_bytes=1_000_000)
    scanning(library, files_seen=420, bytes_seen=400_000)
    html = text_of(viewer, "/libraries/")
    assert "420 / 1,000 · 2 min 18 s left 42 %" in row_of(html, library)
    assert 'max="1000" value="420"' in html
    assert "Scan of photos 42 %" in words_of(html)


def test_list_says_which_scans_wait_and_who_is_next(viewer: Client) -> None:
    first, second, third = (known(name) for name in ("a", "b", "c"))
    for library in (first, second, third):
        queueing.submit(library.pk, HIGH, actor="otto")
    html = text_of(viewer, "/libraries/")
    assert "scan is next, waits for a consumer" in row_of(html, first)
    assert "scan waits for the slot" in row_of(html, second)
    assert "number 2 of the scans" in row_of(html, third)
    assert "2 scans wait" in words_of(html)


def test_list_asks_again_only_while_something_is_active(viewer: Client) -> None:
    library = known()
    assert "hx-trigger" not in text_of(viewer, "/libraries/")
    session = scanning(library, files_seen=1)
    html = text_of(viewer, "/libraries/")
    assert html.count("hx-trigger=") == 1
    assert 'hx-get="/libraries/" hx-trigger="every 3s"' in html
    part = text_of(viewer, "/libraries/", **HTMX)
    assert "<html" not in part
    assert 'id="running-now"' in part
    Job.objects.filter(pk=session.job_id).update(status="completed")
    assert "hx-trigger" not in text_of(viewer, "/libraries/", **HTMX)


def test_list_warns_when_no_consumer_is_alive(viewer: Client) -> None:
    known()
    assert "No consumer is alive" in text_of(viewer, "/libraries/")
    WorkerHeartbeat.objects.create(worker_id="nas:7", hostname="nas")
    assert "No consumer is alive" not in text_of(viewer, "/libraries/")


def test_list_costs_the_same_number_of_queries_for_3_and_30_libraries(
    operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def make(count: int) -> None:
        for number in range(LibraryRoot.objects.count(), count):
            queueing.submit(known(f"library {number}").pk, HIGH, actor="otto")

    make(3)
    text_of(operator, "/libraries/")
    with django_assert_num_queries(9) as counted:
        text_of(operator, "/libraries/")
    make(30)
    with django_assert_num_queries(len(counted)):
        text_of(operator, "/libraries/")


def test_pages_vary_by_who_asks_for_a_part(viewer: Client) -> None:
    library = known()
    for address in ("/libraries/", f"/libraries/{library.pk}/", f"/libraries/{library.pk}/errors/", "/queue/"):
        assert "HX-Request" in viewer.get(address).headers["Vary"], address


# --- Asking for scans -------------------------------------------------------------------------------------
def test_scan_is_asked_for_by_a_button_and_shown_where_one_came_from(operator: Client) -> None:
    library = known()
    assert f'action="/libraries/{library.pk}/scan/"' in text_of(operator, "/libraries/")
    answer = operator.post(f"/libraries/{library.pk}/scan/", {"from": "list"})
    assert answer["Location"] == "/libraries/"
    request = ScanRequest.objects.get()
    assert (request.library, request.priority, request.requested_by) == (library, HIGH, "operator")
    assert not request.accept_missing
    assert operator.post(f"/libraries/{library.pk}/scan/")["Location"] == f"/libraries/{library.pk}/"
    assert ScanRequest.objects.count() == 1


def test_scan_of_all_leaves_out_the_paused_ones(operator: Client) -> None:
    wanted, paused = known("a"), known("b")
    changing.pause(paused.pk, actor="ada")
    answer = operator.post("/libraries/scan/", follow=True)
    assert "1 library is in the queue." in answer.content.decode()
    assert "is paused. Resume" not in answer.content.decode()
    assert [request.library for request in ScanRequest.objects.all()] == [wanted]


def test_scan_of_a_paused_library_is_refused_with_the_way_out(operator: Client) -> None:
    library = known()
    operator.post(f"/libraries/{library.pk}/pause/")
    assert LibraryRoot.objects.get().is_paused
    html = text_of(operator, f"/libraries/{library.pk}/")
    assert f'action="/libraries/{library.pk}/scan/"' not in html
    answer = operator.post(f"/libraries/{library.pk}/scan/", follow=True)
    assert "is paused. Resume it" in answer.content.decode()
    operator.post(f"/libraries/{library.pk}/resume/")
    assert not LibraryRoot.objects.get().is_paused


def test_many_files_gone_are_told_and_accepted_by_a_button(viewer: Client, operator: Client) -> None:
    library = known(file_count=40_000, gone_count=12_034)
    address = f"/libraries/{library.pk}/"
    assert "12,034 of 40,000 files were not found" in words_of(text_of(viewer, address))
    assert "accept_missing" not in text_of(viewer, address)
    assert "12,034 files were not found: decide" in row_of(text_of(viewer, "/libraries/"), library)
    html = text_of(operator, address)
    assert "They are really gone: scan and accept" in html
    assert "mounted" in html
    operator.post(f"{address}scan/", {"accept_missing": "1"})
    request = ScanRequest.objects.get()
    assert request.accept_missing
    assert request.job is not None
    assert request.job.payload["accept_missing"] is True


def test_a_library_that_is_not_there_is_not_found(admin: Client) -> None:
    for verb in ("scan", "pause", "resume", "remove", "settings"):
        for key in (4711, 10**30):
            assert admin.post(f"/libraries/{key}/{verb}/", form()).status_code == 404, (verb, key)


def test_viewer_sees_no_action_and_may_not_send_one(viewer: Client) -> None:
    library = known()
    for verb in ("scan", "pause", "resume"):
        assert f"/{verb}/" not in text_of(viewer, f"/libraries/{library.pk}/")
        assert viewer.post(f"/libraries/{library.pk}/{verb}/").status_code == 403
    assert viewer.post("/libraries/scan/").status_code == 403
    assert not ScanRequest.objects.exists()


def test_only_an_admin_keeps_libraries(operator: Client, admin: Client) -> None:
    library = known()
    for address in ("add/", f"{library.pk}/settings/", f"{library.pk}/remove/", "schedule/"):
        assert operator.get(f"/libraries/{address}").status_code == 403
        assert operator.post(f"/libraries/{address}").status_code in (403, 405)
        assert admin.get(f"/libraries/{address}").status_code == 200
    html = text_of(operator, f"/libraries/{library.pk}/") + text_of(operator, "/libraries/")
    assert "/settings/" not in html
    assert "/add/" not in html


# --- One library ------------------------------------------------------------------------------------------
def test_library_shows_its_numbers_and_settings(viewer: Client) -> None:
    library = known(file_count=12, total_bytes=3_000, missing_count=2, error_count=1, is_writable=True)
    changing.change(
        library.pk, actor="ada", scan_cron="30 2 * * 0", min_size_bytes=64_000, protected_folders="masters",
        read_bytes_per_second=50_000_000,
    )  # fmt: skip
    words = words_of(text_of(viewer, f"/libraries/{library.pk}/"))
    for part in ("and 2 missing", "3.0 kB", "30 2 * * 0 · UTC", "64.0 kB", "50.0 MB /s", "masters", "*.lrdata"):
        assert part in words, part


def test_library_whose_disk_is_away_says_so_and_that_nothing_is_lost(viewer: Client) -> None:
    for mount in ("absent", "empty", "different"):
        library = known(mount, mount=mount, mount_note="caf\uf7e9 is away")
        words = words_of(text_of(viewer, f"/libraries/{library.pk}/"))
        assert "caf\\xe9 is away" in words
        assert "no digest is lost" in words


def test_library_shows_its_scan_and_asks_again_until_it_ended(operator: Client) -> None:
    library = known(walked_files=1_000)
    session = scanning(library, files_seen=250, bytes_seen=9_000, directories_seen=7)
    address = f"/libraries/{library.pk}/"
    html = text_of(operator, address)
    words = words_of(html)
    for part in ("This scan", "250 of about 1,000 files · about 5 min left", "25 %", "9.0 kB"):
        assert part in words, part
    assert re.search(r"\b[23] files/s", words)
    assert html.count("hx-trigger=") == 1
    assert f'action="/queue/{ScanRequest.objects.get().pk}/cancel/"' in html
    part = text_of(operator, address, **HTMX)
    assert "<html" not in part
    assert "library-errors" not in part
    ScanSession.objects.filter(pk=session.pk).update(status="succeeded", finished_at=SecondsFromNow(0), added_count=77)
    Job.objects.filter(pk=session.job_id).update(status="completed")
    part = text_of(operator, address, **HTMX)
    assert "hx-trigger" not in part
    assert 'id="library-errors" aria-labelledby="errors-name" hx-swap-oob="true"' in part
    assert 'id="library-actions" hx-swap-oob="true"' in part
    assert "Last scan" in part
    assert " 77 " in words_of(part)


def test_a_scan_that_sees_more_than_the_last_one_claims_no_end(viewer: Client) -> None:
    library = known(walked_files=1_000)
    scanning(library, files_seen=1_034)
    words = words_of(text_of(viewer, f"/libraries/{library.pk}/"))
    assert "34 more files than the last time" in words
    assert "99 %" in words
    assert " left" not in words


def test_a_scan_begun_anew_does_not_go_backwards(viewer: Client) -> None:
    library = known(walked_files=1_000, walked_bytes=10_000)
    first = scanning(library, files_seen=700, bytes_seen=7_100, directories_seen=72)
    ScanRequest.objects.update(scanned_paths=700)
    ScanSession.objects.filter(pk=first.pk).update(status="failed", finished_at=SecondsFromNow(0))
    again = {"started_at": SecondsFromNow(-10), "updated_at": SecondsFromNow(0)}
    ScanSession.objects.create(
        library=library, job=first.job, files_seen=100, bytes_seen=1_300, directories_seen=14, **again
    )
    page = text_of(viewer, f"/libraries/{library.pk}/")
    assert 'max="1000" value="700"' in page
    for part in ("Files seen 700", "Bytes seen 7.1 kB", "Folders seen 72", "10 files/s"):
        assert part in words_of(page), part
    assert "Files 700 / 1,000 Bytes 7.1 kB / 10.0 kB" in words_of(text_of(viewer, "/queue/"))


def test_library_shows_recent_scans_newest_first(viewer: Client) -> None:
    library = known()
    for number in range(12):
        ScanSession.objects.create(
            library=library, status="failed", files_seen=number, error_message=f"problem {number}",
            finished_at=SecondsFromNow(0),
        )  # fmt: skip
    html = text_of(viewer, f"/libraries/{library.pk}/")
    assert re.findall(r'data-name="files">(\d+)<', html) == [str(number) for number in range(11, 1, -1)]
    assert "problem 11" in html


def make_errors(library: LibraryRoot, count: int) -> None:
    session = ScanSession.objects.create(library=library, status="succeeded")
    ScanError.objects.bulk_create(
        ScanError(library=library, session=session, relative_path=f"{number}/{HOSTILE}", reason="[Errno 13] <b>denied")
        for number in range(count)
    )


def make_failures(library: LibraryRoot, count: int) -> None:
    LibraryFile.objects.bulk_create(
        LibraryFile(library=library, relative_path=f"{number}/{HOSTILE}", size_bytes=1, mtime_ns=1, hash_error_count=2,
                    hash_last_error="[Errno 5] <b>broken", hash_retry_after=SecondsFromNow(605))
        for number in range(count)
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "make"), [("errors", make_errors), ("failures", make_failures)])
def test_errors_are_listed_page_by_page_with_and_without_htmx(viewer: Client, kind: str, make: Any) -> None:
    library = known()
    make(library, 135)
    make(known("other"), 3)
    html = text_of(viewer, f"/libraries/{library.pk}/")
    pages, headers = [html], [HTMX, {}]
    while found := re.search(rf'id="load-more-{kind}" href="([^"]+)" hx-get="([^"]+)"', pages[-1]):
        assert found[1] == found[2]
        pages.append(text_of(viewer, unescape(found[1]), **headers[len(pages) - 1]))
    numbers = re.compile(r'class="path">(\d+)/caf\\xe9 &lt;script&gt;')
    # A long path stands twice in its row: shortened and whole.
    shown = [number for page in pages for number in dict.fromkeys(numbers.findall(page))]
    assert shown == [str(number) for number in range(134, -1, -1)]
    assert "<html" not in pages[1]
    assert "Back to the first" in pages[2]
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert ("in 10 min" in words_of(html)) == (kind == "failures")


def test_a_page_of_errors_that_a_new_scan_took_away_ends_the_list(viewer: Client) -> None:
    library = known()
    make_errors(library, 30)
    last = ScanError.objects.order_by("-pk")[9].pk
    ScanError.objects.all().delete()
    assert "load-more" not in text_of(viewer, f"/libraries/{library.pk}/errors/?before={last}", **HTMX)


def test_a_page_that_was_never_offered_is_not_found(viewer: Client) -> None:
    library = known()
    for before in ("", "x", "-1", "%00", "9" * 30, "1.5"):
        for kind in ("errors", "failures"):
            assert viewer.get(f"/libraries/{library.pk}/{kind}/?before={before}").status_code == 404, before


def test_library_page_costs_the_same_number_of_queries_whatever_it_shows(
    viewer: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    library = known()
    text_of(viewer, f"/libraries/{library.pk}/")
    with django_assert_num_queries(9) as counted:
        text_of(viewer, f"/libraries/{library.pk}/")
    make_errors(library, 30)
    make_failures(library, 30)
    with django_assert_num_queries(len(counted)):
        text_of(viewer, f"/libraries/{library.pk}/")


# --- Adding and settings ----------------------------------------------------------------------------------
def test_add_shows_the_defaults_and_where_libraries_may_lie(admin: Client, roots: Path) -> None:
    html = text_of(admin, "/libraries/add/")
    assert "@eaDir\n#recycle\n$RECYCLE.BIN" in html
    assert f"below {roots}" in html
    assert "never count as reclaimable" in html


def test_add_makes_the_library_with_everything_that_was_chosen(admin: Client, roots: Path) -> None:
    chosen = form(
        path=f"{roots}/photos", role="protected", exclude_patterns=".git\r\n*.tmp\r\n", min_size_bytes="64 kB",
        hash_everything="on", read_bytes_per_second="1.5 MB", schedule="interval", scan_interval_minutes="90",
        scan_cron="30 2 * * 0", protected_folders="masters",
    )  # fmt: skip
    answer = admin.post("/libraries/add/", chosen)
    library = LibraryRoot.objects.get()
    assert answer["Location"] == f"/libraries/{library.pk}/"
    assert (library.name, library.root_path, library.role) == ("photos", f"{roots}/photos", "protected")
    assert (library.exclude_patterns, library.protected_folders) == (".git\n*.tmp", "masters")
    assert (library.min_size_bytes, library.read_bytes_per_second) == (64_000, 1_500_000)
    assert (library.scan_interval_minutes, library.scan_cron, library.hash_everything) == (90, "", True)
    assert library.next_scan_at is not None
    assert LogbookEvent.objects.about("library_roots", str(library.pk)).get(event_type="added").actor == "admin"


#: What is sent instead, the field at which it is said, and the words.
WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"path": "/etc"}, "path", "DEDUPFS_LIBRARIES_ROOT"),
    ({"path": "{roots}/nowhere"}, "path", "no folder that can be read"),
    ({"path": "relative"}, "path", "not a whole path"),
    ({"path": ""}, "path", "This field is required"),
    ({"name": ""}, "name", "This field is required"),
    ({"name": "taken"}, "name", "Choose another name"),
    ({"role": "king"}, "role", "Select a valid choice"),
    ({"min_size_bytes": "big"}, "min_size_bytes", "like 64 kB"),
    ({"read_bytes_per_second": "9" * 30 + " TB"}, "read_bytes_per_second", "more than any disk"),
    ({"schedule": "interval"}, "scan_interval_minutes", "Fill this in"),
    ({"schedule": "interval", "scan_interval_minutes": "-5"}, "scan_interval_minutes", "greater than or equal"),
    ({"schedule": "cron", "scan_cron": "61 * * * *"}, "scan_cron", "61 * * * *"),
    ({"schedule": "cron", "scan_cron": ""}, "scan_cron", "Fill this in"),
    ({"protected_folders": "../out"}, "protected_folders", "without “..”"),
]


def test_add_says_at_the_field_what_is_wrong_and_keeps_what_was_typed(admin: Client, roots: Path) -> None:
    factories.library("taken")
    for changes, field, words in WRONG:
        sent = form(path=f"{roots}/photos", exclude_patterns="what I typed")
        sent |= {name: value.format(roots=roots) for name, value in changes.items()}
        html = admin.post("/libraries/add/", sent).content.decode()
        place = html.index(f'id="id_{field}_error"')
        assert words in unescape(html[place : html.index("</ul>", place)]), changes
        assert f'<a href="#id_{field}">' in html
        assert "what I typed" in html
    assert LibraryRoot.objects.count() == 1


def test_settings_show_what_is_stored_and_save_what_is_changed(admin: Client) -> None:
    library = known()
    changing.change(library.pk, actor="ada", scan_cron="30 2 * * 0", min_size_bytes=64_000)
    html = text_of(admin, f"/libraries/{library.pk}/settings/")
    assert 'value="30 2 * * 0"' in html
    assert 'value="64 kB"' in html
    assert 'value="cron" checked' in html
    assert re.search(r"Next run:.*02:30:00 UTC", html)
    assert 'name="path"' not in html
    changed = form(name="pictures", role="backup", schedule="none", scan_cron="30 2 * * 0")
    answer = admin.post(f"/libraries/{library.pk}/settings/", changed)
    assert answer["Location"] == f"/libraries/{library.pk}/"
    library.refresh_from_db()
    assert (library.name, library.role, library.scan_cron, library.next_scan_at) == ("pictures", "backup", "", None)
    assert library.exclude_patterns == ".git"


def test_settings_that_were_not_changed_stay(admin: Client) -> None:
    library = known()
    changing.change(
        library.pk, actor="ada", min_size_bytes=1_234, read_bytes_per_second=2**20 * 3, hash_everything=True
    )
    before = LibraryRoot.objects.values().get()
    page = admin.get(f"/libraries/{library.pk}/settings/").context["form"]
    sent = {name: page[name].value() for name in page.fields}
    admin.post(f"/libraries/{library.pk}/settings/", {name: value for name, value in sent.items() if value})
    after = LibraryRoot.objects.values().get()
    assert {key: value for key, value in after.items() if key != "updated_at"} == {
        key: value for key, value in before.items() if key != "updated_at"
    }


def test_a_schedule_that_is_typed_shows_its_next_run_in_the_zone(admin: Client, settings: Settings) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    expected = {
        "schedule=cron&scan_cron=30+2+*+*+0": "02:30:00 CE",
        "schedule=interval&scan_interval_minutes=60": "Next run",
        "schedule=none": "No next run",
        "schedule=cron&scan_cron=nonsense": "nonsense",
        "": "No next run",
    }
    for query, words in expected.items():
        html = text_of(admin, f"/libraries/schedule/?{query}", **HTMX)
        assert words in words_of(html), query
        assert "<html" not in html


# --- Removing ---------------------------------------------------------------------------------------------
def test_remove_asks_first_and_takes_rows_never_files(admin: Client, roots: Path) -> None:
    (roots / "photos" / "a.jpg").write_bytes(b"1")
    admin.post("/libraries/add/", form(path=f"{roots}/photos"))
    library = LibraryRoot.objects.get()
    address = f"/libraries/{library.pk}/remove/"
    words = words_of(text_of(admin, address))
    assert "Every file on the disk, as it is" in words
    assert LibraryRoot.objects.kept().count() == 1
    answer = admin.post(address, follow=True)
    assert "“photos” is being removed: its rows go, its files stay." in answer.content.decode()
    assert LibraryRoot.objects.kept().count() == 0
    assert (roots / "photos" / "a.jpg").read_bytes() == b"1"


def test_remove_is_refused_while_the_trash_holds_anything(admin: Client, roots: Path) -> None:
    admin.post("/libraries/add/", form(path=f"{roots}/photos"))
    library = LibraryRoot.objects.get()
    (roots / "photos" / ".dedupfs-trash").mkdir()
    (roots / "photos" / ".dedupfs-trash" / "1").write_bytes(b"1")
    html = admin.post(f"/libraries/{library.pk}/remove/").content.decode()
    assert "It was not removed" in html
    assert "Empty it or undo first" in html
    assert LibraryRoot.objects.kept().count() == 1


def test_remove_of_a_library_whose_disk_is_away_takes_an_admin_s_word(admin: Client) -> None:
    library = known(mount="absent")
    address = f"/libraries/{library.pk}/remove/"
    html = admin.post(address).content.decode()
    assert "can&#x27;t be seen" in html
    assert 'name="even_if_unseen"' in html
    assert LibraryRoot.objects.kept().count() == 1
    admin.post(address, {"even_if_unseen": "on"})
    assert LibraryRoot.objects.kept().count() == 0
