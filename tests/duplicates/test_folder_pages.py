"""The pages of folders that share content: the list, one pair, searching and planning, and who may."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from duplicates import folder_pairs, overlapping
from duplicates.models import FolderPair, FolderSearch, IgnoredGroup, Plan
from jobs import executing
from jobs.models import WorkerHeartbeat
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from tests import factories
from tests.duplicates.test_overlapping import index, search
from tests.pages import AGO, HTMX, text_of, words_of

pytestmark = pytest.mark.django_db

ADDRESS = "/duplicates/folders/"


def one_pair() -> FolderPair:
    """`old` is wholly in `new`, which has two files more."""
    library = factories.library()
    index(library, {"old/a": b"aa", "old/b": b"bb", "new/a": b"aa", "new/moved/b": b"bb", "new/c": b"c", "new/d": None})
    return FolderPair.objects.get(search=search())


# --- The list ---------------------------------------------------------------------------------------------
def test_list_without_libraries_leads_to_them(viewer: Client) -> None:
    html = text_of(viewer, ADDRESS)
    assert "No libraries yet" in html
    assert 'href="/libraries/"' in html


def test_list_before_the_first_search_says_what_it_would_do(viewer: Client, operator: Client) -> None:
    factories.library()
    assert "Nobody has searched yet" in text_of(viewer, ADDRESS)
    assert "do-first-search" not in text_of(viewer, ADDRESS)
    assert "do-first-search" in text_of(operator, ADDRESS)


def test_list_shows_both_paths_and_what_is_only_in_one(viewer: Client) -> None:
    pair = one_pair()
    html = text_of(viewer, ADDRESS)
    words = words_of(html)
    assert "Everything in A is also in B" in words
    assert "2 files are only in B" in words
    assert "2 contents in both" in words
    assert "1 pair" in words
    assert re.search(f"searched {AGO}", words)
    assert f'href="/duplicates/folders/{pair.pk}/"' in html
    assert "<strong>old</strong>" in html
    assert "hx-trigger" not in html
    assert "do-search" not in html


def test_list_counts_what_is_only_in_the_left_one(viewer: Client) -> None:
    library = factories.library()
    shared = {f"{folder}/{n}": b"%04d" % n for folder in "ab" for n in range(5)}
    index(library, {**shared, "a/one": b"1", "b/two": b"2", "b/three": b"3"})
    search()
    assert "1 file is only in A · 2 files are only in B" in words_of(text_of(viewer, ADDRESS))


def test_list_shows_a_running_search_and_polls_until_it_ends(operator: Client) -> None:
    one_pair()
    asked = overlapping.ask("ada")
    html = text_of(operator, ADDRESS)
    assert 'hx-trigger="every 2s"' in html
    assert "waits for a consumer" in html
    assert "No consumer is alive" in html
    assert "do-search" not in html
    lease = FolderSearch.objects.claim("worker")
    assert lease is not None
    lease.renew(41, 100)
    live = text_of(operator, ADDRESS, **HTMX)
    assert "41 of 100 steps" in words_of(live)
    assert 'value="410"' in live
    assert "folder-pairs" not in live  # rows that were loaded stay while it runs
    executing.carry_out_here(overlapping.QUEUE, lease)
    asked.refresh_from_db()
    assert asked.status == "completed"
    done = text_of(operator, ADDRESS, **HTMX)
    assert "hx-trigger" not in done
    assert 'id="folder-pairs" aria-labelledby="pairs-name" hx-swap-oob="true"' in done
    assert "do-search" in done


def test_list_tells_of_a_search_that_failed_and_shows_the_one_before(viewer: Client) -> None:
    one_pair()
    overlapping.ask("ada")
    lease = FolderSearch.objects.claim("worker")
    assert lease is not None
    lease.finish("failed", code="WORKER_FAILURE", message="ValueError: <b>no</b>")
    html = text_of(viewer, ADDRESS)
    assert "The last search failed" in html
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in html
    assert "Everything in A is also in B" in words_of(html)


def test_list_says_that_libraries_were_scanned_since(viewer: Client) -> None:
    one_pair()
    assert "scanned since" not in text_of(viewer, ADDRESS)
    LibraryRoot.objects.update(last_scanned_at="2050-01-01T00:00:00Z")
    assert "1 library scanned since" in words_of(text_of(viewer, ADDRESS))


def test_list_without_pairs_says_why(viewer: Client) -> None:
    library = factories.library()
    search()
    assert "There are no duplicates in the index." in text_of(viewer, ADDRESS)
    index(library, {"a/1": b"1", "a/2": b"1"})
    search()
    assert 'href="/duplicates/"' in text_of(viewer, ADDRESS)


def test_list_says_what_was_left_out(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapping, "MOST_FOLDERS", 2)
    index(factories.library(), {f"{n}/x": b"xx" for n in range(3)})
    search()
    assert "1 contents lie in more than 2 folders" in text_of(viewer, ADDRESS)


def test_list_pages_neither_repeat_nor_skip(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_pairs, "PAGE_PAIRS", 3)
    library = factories.library()
    for number in range(8):
        content = bytes([65 + number]) * (3 if number % 2 else 4)
        index(library, {f"left{number}/f": content, f"right{number}/f": content})
    search()
    seen: list[str] = []
    address, pages = ADDRESS, 0
    while address:
        html = text_of(viewer, address)
        seen += re.findall(r'id="pair-(\d+)"', html)
        assert html.count('<li class="pair"') == text_of(viewer, address, **(HTMX if pages else {})).count(
            '<li class="pair"'
        )
        following = re.search(r'id="load-more-pairs" href="([^"]+)"', html)
        address, pages = unescape(following[1]) if following else "", pages + 1
    assert pages == 3
    assert len(seen) == len(set(seen)) == 8
    sizes = [FolderPair.objects.get(pk=int(key)).shared_bytes for key in seen]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "1-2", "1-2-3-4", "-1-2-3", "999-1-1", "9" * 30 + "-1-1", "%00"])
def test_a_cursor_of_nobody_is_no_page(viewer: Client, cursor: str) -> None:
    one_pair()
    assert viewer.get(f"{ADDRESS}?after={cursor}").status_code == 404


# --- One pair ---------------------------------------------------------------------------------------------
def test_pair_lists_what_is_in_both_and_in_one_alone(viewer: Client) -> None:
    pair = one_pair()
    both = text_of(viewer, f"{ADDRESS}{pair.pk}/")
    assert re.findall(r'<td class="is-whole"><span class="path">([^<]+)', both) == ["a", "b", "moved/b"]
    assert words_of(both).count("at the same place") == 1
    assert "None: everything in it is also in the other folder." in text_of(viewer, f"{ADDRESS}{pair.pk}/?list=left")
    right = text_of(viewer, f"{ADDRESS}{pair.pk}/?list=right")
    assert set(re.findall(r'<td class="is-whole"><span class="path">([^<]+)', right)) == {"c", "d"}
    assert "Only in B" in right


def test_pair_of_whole_libraries_lists_their_files(viewer: Client) -> None:
    for name in ("one", "two"):
        index(factories.library(name), {"x": b"xxxxx", f"only/{name}": name.encode()})
    pair = FolderPair.objects.get(search=search())
    assert "the whole library" in text_of(viewer, f"{ADDRESS}{pair.pk}/")
    left = text_of(viewer, f"{ADDRESS}{pair.pk}/?list=left")
    assert re.findall(r'<td class="is-whole"><span class="path">([^<]+)', left) == ["only/" + str(pair.left_library)]


def test_pair_does_not_take_a_folder_for_another_that_begins_like_it(viewer: Client) -> None:
    library = factories.library()
    index(library, {"a/1": b"1111", "b/1": b"1111", "a b/2": b"2", "a.c/3": b"3", "a0/4": b"4", "a%/5": b"5"})
    pair = FolderPair.objects.get(search=search())
    for which in ("both", "left", "right"):
        files = folder_pairs.files(_shown(pair), which)
        assert [file.path for file in files.files] == (["1"] if which == "both" else [])


def _shown(pair: FolderPair) -> folder_pairs.ShownPair:
    shown = folder_pairs.one(pair.pk)
    assert shown is not None
    return shown


def test_pair_pages_neither_repeat_nor_skip(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_pairs, "PAGE_FILES", 3)
    monkeypatch.setattr(folder_pairs, "PART_FILES", 4)
    library = factories.library()
    index(library, {f"{folder}/{n:02}": b"%04d" % n for folder in "ab" for n in range(10)})
    index(library, {f"a/x{n}": b"x%d" % n for n in range(3)} | {f"b/y{n}": b"y%d" % n for n in range(8)})
    pair = FolderPair.objects.get(search=search())
    for which, expected in (("both", 10), ("left", 3), ("right", 8)):
        address, seen = f"{ADDRESS}{pair.pk}/?list={which}", []
        while address:
            html = text_of(viewer, address)
            seen += re.findall(r'<tr>\s*<td class="is-whole"><span class="path">([^<]+)', html)
            following = re.search(r'id="load-more-files" href="[^"]+" hx-get="([^"]+)"', html)
            address = unescape(following[1]) if following else ""
        assert len(seen) == len(set(seen)) == expected, which


def test_pair_that_takes_long_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_pairs, "PART_FILES", 2)
    library = factories.library()
    index(library, {f"{folder}/{n}": b"%04d" % n for folder in "ab" for n in range(9)} | {"a/z": b"z"})
    pair = _shown(FolderPair.objects.get(search=search()))
    which = "left" if pair.left.only_files else "right"
    after: int | None = None
    turns, seen = 0, list[str]()
    while True:
        page = folder_pairs.files(pair, which, after, seconds=-1)
        turns, seen = turns + 1, seen + [file.path for file in page.files]
        if page.next_after is None:
            break
        assert page.is_short
        after = page.next_after
    assert turns > 3
    assert seen == ["z"]


def test_pair_shows_hostile_names_whole_and_harmless(viewer: Client) -> None:
    folder = to_text(b"caf\xe9<script>\n")
    index(factories.library(), {f"{folder}/<b>x": b"xx", "b/<b>x": b"xx"})
    pair = FolderPair.objects.get(search=search())
    for html in (text_of(viewer, ADDRESS), text_of(viewer, f"{ADDRESS}{pair.pk}/")):
        assert "caf\\xe9&lt;script&gt;\\n" in html
        assert "<script>\\n" not in html
    assert "&lt;b&gt;x" in html


def test_pair_of_an_older_search_says_so(viewer: Client) -> None:
    pair = one_pair()
    search()
    assert "A newer search has ended since" in text_of(viewer, f"{ADDRESS}{pair.pk}/")


@pytest.mark.parametrize(
    "rest", ["999/", f"{2**63}/", "1/?list=all", "1/?after=x", "1/?after=" + "9" * 30, "1/?after=-1"]
)
def test_what_there_is_not_is_not_found(viewer: Client, rest: str) -> None:
    pair = one_pair()
    assert viewer.get(ADDRESS + re.sub("^1/", f"{pair.pk}/", rest)).status_code == 404


# --- Searching and planning -------------------------------------------------------------------------------
def test_an_operator_searches_once(operator: Client) -> None:
    factories.library()
    for _ in range(2):
        assert operator.post(f"{ADDRESS}search/").status_code == 302
    (asked,) = FolderSearch.objects.all()
    assert (asked.status, asked.requested_by) == ("pending", "operator")


def test_a_viewer_can_neither_search_nor_plan(viewer: Client) -> None:
    pair = one_pair()
    before = FolderSearch.objects.count()
    for address in (f"{ADDRESS}search/", f"{ADDRESS}{pair.pk}/plan/"):
        assert viewer.post(address).status_code == 403
        assert viewer.get(address).status_code in (403, 405)
    assert FolderSearch.objects.count() == before
    assert not Plan.objects.exists()
    html = text_of(viewer, f"{ADDRESS}{pair.pk}/")
    assert "plan-left" not in html


def test_a_stranger_sees_nothing() -> None:
    pair = one_pair()
    for address in (ADDRESS, f"{ADDRESS}{pair.pk}/"):
        answer = Client().get(address)
        assert answer.status_code == 302
        assert "login" in answer["Location"]


def test_a_plan_for_a_pair_removes_from_the_left_what_the_right_has(operator: Client) -> None:
    pair = one_pair()
    LibraryFile.objects.filter(relative_path="new/c").update(relative_path="old/c")
    index(LibraryRoot.objects.get(), {"third/c": b"c"})
    answer = operator.post(f"{ADDRESS}{pair.pk}/plan/", {"from": "left"})
    (plan,) = Plan.objects.all()
    assert answer["Location"].endswith(f"/plans/{plan.pk}/")
    library = LibraryRoot.objects.get().pk
    assert plan.rules == [
        {"kind": "keep_in", "folders": [{"library": library, "path": "new"}]},
        {"kind": "remove_only_under", "folders": [{"library": library, "path": "old"}]},
    ]
    executing.drain("jobs")
    plan.refresh_from_db()
    assert plan.status == "ready"
    gone = set(plan.files.filter(role="remove").values_list("relative_path", flat=True))
    # What only a third folder has as well stays: the plan is about these two.
    assert gone == {"old/a", "old/b"}
    assert set(plan.files.filter(role="keep").values_list("relative_path", flat=True)) == {"new/a", "new/moved/b"}


def test_a_plan_the_other_way_removes_from_the_right(operator: Client) -> None:
    pair = one_pair()
    operator.post(f"{ADDRESS}{pair.pk}/plan/", {"from": "right"})
    executing.drain("jobs")
    (plan,) = Plan.objects.all()
    gone = set(plan.files.filter(role="remove").values_list("relative_path", flat=True))
    assert gone == {"new/a", "new/moved/b"}


def test_a_plan_for_very_many_contents_goes_by_filter(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplicates.folder_planning.MOST_KEYS", 1)
    pair = one_pair()
    operator.post(f"{ADDRESS}{pair.pk}/plan/")
    (plan,) = Plan.objects.all()
    assert plan.group_keys == []
    assert "folder=old" in plan.filter
    executing.drain("jobs")
    gone = set(plan.files.filter(role="remove").values_list("relative_path", flat=True))
    assert gone == {"old/a", "old/b"}


@pytest.mark.parametrize("case", ["protected", "folder", "backup", "ignored", "changed", "nonsense"])
def test_a_plan_that_can_not_be_is_refused_in_words(operator: Client, case: str) -> None:
    pair = one_pair()
    if case in ("protected", "backup"):
        LibraryRoot.objects.update(role=case)
    elif case == "folder":
        LibraryRoot.objects.update(protected_folders="old")
    elif case == "changed":
        LibraryFile.objects.filter(relative_path__startswith="new/").update(is_missing=True)
    elif case == "ignored":
        for file in LibraryFile.objects.filter(relative_path__startswith="old/"):
            IgnoredGroup.objects.create(
                hash_algorithm="blake3", content_hash=bytes(file.content_hash or b""), ignored_by="ada"
            )
    answer = operator.post(f"{ADDRESS}{pair.pk}/plan/", {"from": "up" if case == "nonsense" else "left"}, follow=True)
    assert answer.status_code == 200
    assert 'class="message is-danger"' in answer.content.decode()
    assert not Plan.objects.exists()


def test_list_is_read_in_few_queries(viewer: Client, django_assert_max_num_queries: object) -> None:
    library = factories.library()
    for number in range(20):
        content = bytes([65 + number]) * 4
        index(library, {f"left{number}/f": content, f"right{number}/f": content})
    search()
    WorkerHeartbeat.objects.all().delete()
    with django_assert_max_num_queries(20):  # type: ignore[operator]
        text_of(viewer, ADDRESS)
