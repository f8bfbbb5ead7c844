from __future__ import annotations

import os
import re
import time
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.models import Role
from database.clock import SecondsFromNow
from duplicates import ignoring
from duplicates.models import IgnoredGroup, Plan, PlanFile, RuleSet
from jobs.models import Job
from libraries import queueing
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanRequest
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import HTMX, QueryCounter, logged_in, text_of, words_of

pytestmark = pytest.mark.django_db

HOSTILE = to_text(b"caf\xe9 <script>alert(1)</script>\n.jpg")
#: Old enough to be planned.
LONG_AGO = 1_500_000_000 * 10**9


def scanned(name: str = "photos", **fields: Any) -> LibraryRoot:
    library = factories.library(name, **fields)
    LibraryRoot.objects.filter(pk=library.pk).update(last_scanned_at=SecondsFromNow(-60))
    return library


def digest(number: int) -> bytes:
    return number.to_bytes(32, "big")


def key(number: int) -> str:
    return f"blake3:{digest(number).hex()}"


def copy(number: int, path: str, library: LibraryRoot, **fields: Any) -> LibraryFile:
    """A file of content `number`, read and hashed."""
    values = {"size_bytes": 1000, "mtime_ns": LONG_AGO, "hash_algorithm": "blake3", **fields}
    return LibraryFile.objects.create(
        library=library, relative_path=path, content_hash=digest(number), needs_hash=False, **values
    )


def many_groups(count: int, library: LibraryRoot) -> None:
    LibraryFile.objects.bulk_create(
        LibraryFile(
            library=library,
            relative_path=f"{folder}/{number}.jpg",
            size_bytes=1000 + number,
            mtime_ns=LONG_AGO,
            hash_algorithm="blake3",
            content_hash=digest(number),
            needs_hash=False,
        )
        for number in range(count)
        for folder in ("a", "b")
    )


def many_copies(count: int, library: LibraryRoot) -> None:
    """Copies of content 1, made by the database itself: ten thousand objects would take seconds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %s)"
            " INSERT INTO library_files (library_id, relative_path, size_bytes, mtime_ns, needs_hash, hash_algorithm,"
            " content_hash) SELECT %s, n || '/x.bin', 1000, %s, false, 'blake3', %s FROM numbers",
            [count, library.pk, LONG_AGO, digest(1)],
        )


def keys_in(html: str) -> list[str]:
    return [f"blake3:{found}" for found in re.findall(r'id="group-blake3-([0-9a-f]{64})"', html)]


def next_in(html: str) -> str | None:
    found = re.search(r'id="load-more" href="([^"]+)"', html)
    return unescape(found[1]) if found else None


# --- The list ---------------------------------------------------------------------------------------------
def test_list_shows_what_a_group_is_and_where_its_copies_are(viewer: Client) -> None:
    photos, backup = scanned(), scanned("nas", role="backup")
    copy(1, "2019/italy/IMG_1.jpg", photos, size_bytes=4_200_000)
    copy(1, "2019/copies/IMG_1.jpg", photos, size_bytes=4_200_000)
    copy(1, "all/IMG_1.jpg", backup, size_bytes=4_200_000)
    html = text_of(viewer, "/duplicates/")
    words = words_of(html)
    for part in ("IMG_1.jpg", "3 copies", "photos", "nas", "4.2 MB"):
        assert part in words, part
    assert "<strong>2019/italy/</strong>" in html
    assert 'data-media="image"' in html
    assert f'href="/duplicates/{key(1)}/"' in html


def test_list_reads_a_few_files_of_a_group_with_many(viewer: Client) -> None:
    library = scanned()
    many_copies(300, library)
    html = text_of(viewer, "/duplicates/")
    assert re.findall(r"<strong>(\d+)/</strong>", html) == ["1", "2"]
    words = words_of(html)
    assert "300 copies" in words
    assert "and 298 more" in words


def test_list_shows_hostile_names_whole_and_harmless(viewer: Client) -> None:
    library = scanned("<b>bold</b>")
    copy(1, f"a/{HOSTILE}", library)
    copy(1, f"b/{HOSTILE}", library)
    for address in ("/duplicates/", f"/duplicates/{key(1)}/", f"/duplicates/{key(1)}/preview/"):
        html = text_of(viewer, address)
        assert "<script>alert" not in html
        assert "<b>bold" not in html
        assert "caf\\xe9 &lt;script&gt;" in html


def test_list_pages_by_cursor_to_the_end_without_repeating(viewer: Client) -> None:
    many_groups(120, scanned())
    seen: list[str] = []
    address: str | None = "/duplicates/?order=size"
    while address:
        html = text_of(viewer, address)
        seen += keys_in(html)
        address = next_in(html)
        assert address is None or "order=size" in address
    assert seen == [key(number) for number in reversed(range(120))]


def test_list_gives_only_rows_to_load_more(viewer: Client) -> None:
    many_groups(80, scanned())
    address = next_in(text_of(viewer, "/duplicates/"))
    assert address is not None
    part = text_of(viewer, address, **HTMX)
    assert "<html" not in part
    assert len(keys_in(part)) == 50
    assert "HX-Request" in viewer.get("/duplicates/").headers["Vary"]


def test_list_keeps_its_filter_in_every_link(operator: Client) -> None:
    library = scanned()
    RuleSet.objects.create(name="oldest", rules=[])
    many_groups(60, library)
    html = text_of(operator, f"/duplicates/?library={library.pk}&media=image&order=size")
    query = f"library={library.pk}&amp;media=image"
    for start in ("/duplicates/totals/?", "/duplicates/export/csv/?", "/duplicates/export/json/?", "/duplicates/?"):
        assert f"{start}{query}&amp;order=size" in html, start
    assert f'name="filter" value="{query}"' in html
    assert f'<option value="{library.pk}" selected>' in html
    assert '<option value="image" selected>' in html


def test_list_says_only_what_was_filled_in(viewer: Client) -> None:
    answer = viewer.get("/duplicates/?library=&media=image&folder=&least_bytes=&order=copies&ignored=")
    assert (answer.status_code, answer["Location"]) == (302, "/duplicates/?media=image")


def test_list_tells_why_a_filter_can_not_be_used(viewer: Client) -> None:
    scanned()
    answer = viewer.get("/duplicates/?folder=2019")
    assert answer.status_code == 400
    html = answer.content.decode()
    assert "This filter can't be used" in html
    assert "Choose the library as well" in html
    assert 'value="2019"' in html
    assert viewer.get("/duplicates/?order=colour&library=x&least_bytes=tall").status_code == 400
    assert viewer.get("/duplicates/?cursor=nonsense").status_code == 404


def test_list_costs_the_same_number_of_queries_for_3_and_40_groups(
    operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    library = scanned()
    many_groups(3, library)
    text_of(operator, "/duplicates/")
    with connection.execute_wrapper(counted := QueryCounter()):
        text_of(operator, "/duplicates/")
    few = counted.count
    LibraryFile.objects.all().delete()
    many_groups(40, library)
    text_of(operator, "/duplicates/")
    with django_assert_num_queries(few):
        text_of(operator, "/duplicates/")
    assert few < 25


# --- Empty, growing ---------------------------------------------------------------------------------------
def test_empty_pages_say_what_to_do_next(viewer: Client, operator: Client) -> None:
    html = text_of(viewer, "/duplicates/")
    assert "No libraries yet" in html
    assert "/libraries/add/" not in html
    assert 'href="/first-steps/"' in text_of(logged_in(Role.ADMIN), "/duplicates/")
    library = factories.library()
    assert 'action="/libraries/scan/"' in text_of(operator, "/duplicates/")
    LibraryRoot.objects.update(last_scanned_at=SecondsFromNow(-60))
    assert "No duplicates" in text_of(viewer, "/duplicates/")
    copy(1, "a", library)
    copy(1, "b", library)
    assert "No group is like that" in text_of(viewer, "/duplicates/?media=video")
    ignoring.ignore(key(1), actor="otto")
    assert 'href="/duplicates/?ignored=only"' in text_of(viewer, "/duplicates/")


def test_list_says_that_groups_may_still_come(viewer: Client) -> None:
    library = scanned()
    queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor="otto")
    assert "No duplicates so far" in text_of(viewer, "/duplicates/")
    many_groups(1, library)
    assert "A scan of photos is about to begin" in words_of(text_of(viewer, "/duplicates/"))
    assert Job.objects.claim("nas:7") is not None
    assert "photos is being scanned" in words_of(text_of(viewer, "/duplicates/"))
    assert "every 10s" in text_of(viewer, "/duplicates/totals/", **HTMX)
    Job.objects.update(status="cancelled")
    assert "hx-trigger" not in text_of(viewer, "/duplicates/totals/", **HTMX)


def test_list_says_that_it_is_not_counted_whole(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    many_groups(2, scanned())
    text_of(viewer, "/duplicates/")
    monkeypatch.setattr("duplicates.group_views.PATIENCE_SECONDS", -1.0)
    LibraryFile.objects.filter(relative_path="a/1.jpg").update(is_missing=True)
    assert "Groups are still being counted" in text_of(viewer, "/duplicates/")


# --- Totals and export ------------------------------------------------------------------------------------
def test_totals_load_after_the_page_and_work_as_a_plain_link(viewer: Client) -> None:
    library = scanned()
    many_groups(3, library)
    html = text_of(viewer, "/duplicates/?media=image")
    assert 'hx-get="/duplicates/totals/?media=image"' in html
    assert 'href="/duplicates/?media=image&amp;totals=1"' in html
    expected = "3 groups 6 files 3.0 kB to win back"
    assert expected in words_of(text_of(viewer, "/duplicates/totals/?media=image", **HTMX))
    assert expected in words_of(text_of(viewer, "/duplicates/?media=image&totals=1"))
    assert "0 groups" in words_of(text_of(viewer, "/duplicates/totals/?media=video"))
    assert viewer.get("/duplicates/totals/?media=nonsense").status_code == 404


@pytest.mark.parametrize("form", ["csv", "json"])
def test_export_streams_what_is_filtered(viewer: Client, form: str) -> None:
    library = scanned()
    many_groups(3, library)
    copy(9, "x.mp4", library)
    copy(9, "y.mp4", library)
    answer: Any = viewer.get(f"/duplicates/export/{form}/?media=image&order=size")
    assert answer.streaming
    assert "attachment" in answer["Content-Disposition"]
    text = b"".join(answer.streaming_content).decode()
    assert text.count("a/") == 3
    assert "x.mp4" not in text
    assert text.index("a/2.jpg") < text.index("a/0.jpg")


def test_export_knows_two_forms(viewer: Client) -> None:
    assert viewer.get("/duplicates/export/xml/").status_code == 404
    assert viewer.get("/duplicates/export/csv/?media=nonsense").status_code == 404


# --- Marking ----------------------------------------------------------------------------------------------
def test_viewers_can_not_mark_and_operators_can(viewer: Client, operator: Client) -> None:
    many_groups(1, scanned())
    RuleSet.objects.create(name="oldest", rules=[])
    html = text_of(viewer, "/duplicates/")
    assert 'name="group"' not in html
    assert "/plans/" not in re.sub(r"<nav.*?</nav>", "", html, flags=re.S)
    html = text_of(operator, "/duplicates/")
    assert f'name="group" value="{key(0)}" form="marked"' in html
    assert re.search(r'<form class="mark-bar" id="marked" method="post" action="/plans/[^"]*"', html)
    assert viewer.post("/duplicates/ignore/", {"group": key(0)}).status_code == 403
    assert not IgnoredGroup.objects.exists()


def test_marked_groups_are_ignored_and_listed_again(operator: Client) -> None:
    many_groups(3, scanned())
    answer = operator.post("/duplicates/ignore/", {"group": [key(0), key(2)], "back": "order=size"}, follow=True)
    assert answer.redirect_chain == [("/duplicates/?order=size", 302)]
    assert "2 groups are ignored." in answer.content.decode()
    assert keys_in(answer.content.decode()) == [key(1)]
    only = text_of(operator, "/duplicates/?ignored=only")
    assert set(keys_in(only)) == {key(0), key(2)}
    assert 'name="undo"' in only
    operator.post("/duplicates/ignore/", {"group": [key(0)], "undo": "1"})
    assert set(keys_in(text_of(operator, "/duplicates/"))) == {key(0), key(1)}
    events = LogbookEvent.objects.about(ignoring.ITEM, key(0)).values_list("actor", flat=True)
    assert list(events) == ["operator", "operator"]


def test_ignoring_is_all_or_nothing_and_leads_nowhere_else(operator: Client) -> None:
    many_groups(1, scanned())
    sent: list[dict[str, Any]] = [
        {},
        {"group": [key(0), "nonsense"]},
        {"group": "a/b", "from": "group"},
        {"group": key(0), "note": "n" * 300},
    ]
    for data in sent:
        answer = operator.post("/duplicates/ignore/", {**data, "back": "//evil.example/"})
        assert answer["Location"].startswith("/duplicates/?"), data
    assert not IgnoredGroup.objects.exists()


# --- One group --------------------------------------------------------------------------------------------
def copy_part(html: str, file: LibraryFile) -> str:
    found = re.search(rf'<article class="card copy" id="copy-{file.pk}".*?</article>', html, flags=re.S)
    assert found is not None
    return found[0]


def test_group_shows_its_files_side_by_side(viewer: Client) -> None:
    photos = scanned()
    LibraryState.objects.create(library=photos, mount="present", filesystems={"": "uuid-1"})
    told = {"inode": -2, "device": 7, "nlink": 1, "ctime_ns": LONG_AGO, "hashed_at": SecondsFromNow(-7205)}
    first = copy(1, "2019/italy/IMG_1.jpg", photos, **told)
    copy(1, "2019/copies/IMG_1.jpg", scanned("old"), hashed_at=SecondsFromNow(-60))
    html = text_of(viewer, f"/duplicates/{key(1)}/")
    words = words_of(html)
    assert f"These are the same bytes: BLAKE3 {digest(1).hex()}" in words
    assert "the first 2 h ago , the last 1 min ago" in words
    part = copy_part(html, first)
    assert "<strong>italy/</strong>" in part
    for fact in ("photos", "2017-07-14", "2 h ago", "1.0 kB", str(2**64 - 2), "uuid-1"):
        assert fact in words_of(part), fact
    assert 'type="radio"' not in html


def test_group_says_why_a_file_may_not_be_removed(operator: Client) -> None:
    photos = scanned(protected_folders="keep")
    files = {
        "backup": copy(1, "x", scanned("b", role="backup")),
        "protected library": copy(1, "x", scanned("p", role="protected")),
        "protected folder": copy(1, "keep/x", photos),
        "young": copy(1, "young/x", photos, mtime_ns=time.time_ns()),
        "read-only": copy(1, "x", locked := scanned("r")),
    }
    LibraryState.objects.create(library=locked, mount="present", is_writable=False)
    free = copy(1, "free/x", photos)
    html = text_of(operator, f"/duplicates/{key(1)}/")
    for why, file in files.items():
        part = copy_part(html, file)
        assert "copy-why" in part, why
        assert 'value="remove" autocomplete="off" disabled' in part, why
    assert "disabled" not in copy_part(html, free)
    assert "can&#x27;t be written to" in copy_part(html, files["read-only"])


def test_group_marks_hard_links_as_one_file(viewer: Client) -> None:
    library = scanned()
    same = {"inode": 5, "device": 1, "nlink": 2}
    links = [copy(1, "a", library, **same), copy(1, "b", library, **same)]
    other = copy(1, "c", library, inode=6, device=1, nlink=1)
    html = text_of(viewer, f"/duplicates/{key(1)}/")
    assert all("Hard link A: one of 2 names" in words_of(copy_part(html, link)) for link in links)
    assert "Hard link" not in copy_part(html, other)
    assert "3 in 2 inodes" in words_of(html)


def test_group_with_very_many_files_is_paged_and_stays_quick(operator: Client) -> None:
    many_copies(10_000, scanned())
    address = f"/duplicates/{key(1)}/"
    text_of(operator, address)
    began = time.thread_time()
    html = text_of(operator, address)
    assert time.thread_time() - began < 2, "of work, however many others the machine works for"
    assert html.count("<article") == 24
    found = re.search(r'id="load-more-copies" href="([^"]+)"', html)
    assert found is not None
    part = text_of(operator, found[1], **HTMX)
    assert "<html" not in part
    assert part.count("<article") == 24
    assert "Back to the first copies" in text_of(operator, found[1])
    assert operator.get(f"{address}?after=99999999999").status_code == 404
    assert operator.get(f"{address}?after=x").status_code == 404


def test_group_with_times_that_no_calendar_has_is_shown(viewer: Client) -> None:
    library = scanned()
    copy(1, "a", library, mtime_ns=2**62, ctime_ns=-(2**62))
    copy(1, "b", library, mtime_ns=2**63 - 1)
    text_of(viewer, f"/duplicates/{key(1)}/")


def test_group_is_found_by_any_spelling_and_others_are_not_there(viewer: Client) -> None:
    many_groups(12, scanned())
    assert text_of(viewer, f"/duplicates/{key(11).upper()}/")
    for address in (key(999), "nonsense", "blake3:12", "md5:" + "0" * 64):
        assert viewer.get(f"/duplicates/{address}/").status_code == 404
        assert viewer.get(f"/duplicates/{address}/preview/").status_code == 404


def test_group_is_ignored_with_a_note_and_that_is_undone(operator: Client) -> None:
    many_groups(1, scanned())
    address = f"/duplicates/{key(0)}/"
    data = {"group": key(0), "from": "group", "note": "logos <b>"}
    answer = operator.post("/duplicates/ignore/", data, follow=True)
    assert answer.redirect_chain == [(address, 302)]
    html = answer.content.decode()
    assert "Ignored by operator" in words_of(html)
    assert "logos &lt;b&gt;" in html
    assert 'id="stop-ignoring"' in html
    operator.post("/duplicates/ignore/", {"group": key(0), "from": "group", "undo": "1"})
    html = text_of(operator, address)
    assert 'id="stop-ignoring"' not in html
    assert html.count('<li class="moment">') == 2


def test_group_tells_of_the_plans_it_is_in(viewer: Client) -> None:
    library = scanned()
    file = copy(1, "a", library)
    copy(1, "b", library)
    plan, other = (Plan.objects.create(status="ready", created_by="otto", rule_set_name="oldest") for _ in range(2))
    PlanFile.objects.create(
        plan=plan, role="keep", hash_algorithm="blake3", content_hash=digest(1), file=file, library=library,
        relative_path="a", size_bytes=1, mtime_ns=1,
    )  # fmt: skip
    html = text_of(viewer, f"/duplicates/{key(1)}/")
    assert f'href="/plans/{plan.pk}/"' in html
    assert f'href="/plans/{other.pk}/"' not in html


def test_the_last_copy_stays_even_if_a_form_says_otherwise(operator: Client) -> None:
    library = scanned()
    files = [copy(1, path, library) for path in ("a", "b")]
    found = re.search(r'id="choice" method="post" action="([^"]+)"', text_of(operator, f"/duplicates/{key(1)}/"))
    assert found is not None
    choices = {f"choice-{file.pk}": "remove" for file in files}
    answer = operator.post(found[1], {"group": key(1), "action": "trash", **choices})
    assert not Plan.objects.exists()
    words = words_of(answer.content.decode())
    assert "No plan was made" in words
    assert "Every copy of “a” is marked to go." in words
    assert key(1) in words


def test_pages_touch_no_disk(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's disk may hang: whoever asked it would wait for ever."""
    library = scanned(root_path="/proc/self/nothing-is-here")
    many_groups(2, library)
    asked: list[Any] = []

    def noting(real: Any) -> Any:
        def ask(path: Any = ".", *more: Any, **rest: Any) -> Any:
            asked.append(path)
            return real(path, *more, **rest)

        return ask

    for name in ("stat", "lstat", "open", "scandir", "listdir"):
        monkeypatch.setattr(os, name, noting(getattr(os, name)))
    for address in ("/duplicates/", f"/duplicates/{key(0)}/", f"/duplicates/{key(0)}/preview/", "/duplicates/totals/"):
        text_of(operator, address)
    assert [path for path in asked if "nothing-is-here" in str(path)] == []
