"""Pages of groups: every order, every filter, any depth, and cursors that hold whatever happens between two pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from duplicates import filtering, listing, searching, summary
from duplicates.filtering import MEDIA
from duplicates.listing import ORDERS, BadCursor, BadFilter, BadGroupKey, Filter, Totals
from duplicates.models import DuplicateGroup, IgnoredGroup
from frame import slow_figures
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from tests import factories
from tests.duplicates.contents import copies, digest_of, key_of

pytestmark = pytest.mark.django_db
ALL = Filter(least_bytes=0, ignored="all")


def walk(filter: Filter = ALL, order: str = "copies", size: int = 3, **more: Any) -> list[str]:
    """The keys of all groups, page by page."""
    found: list[str] = []
    cursor = None
    for _ in range(200):
        page = listing.page(filter, order, cursor, size, **more)
        assert len(page.groups) <= size
        found += [group.key for group in page.groups]
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("the walk does not end")


@pytest.fixture
def photos() -> LibraryRoot:
    return factories.library("photos")


@pytest.fixture
def backup() -> LibraryRoot:
    return factories.library("backup")


@pytest.fixture
def many(photos: LibraryRoot, backup: LibraryRoot) -> None:
    """Groups with ties in every figure, one of them of empty files."""
    for number in range(12):
        names = [f"{number}/{copy}.jpg" for copy in range(2 + number % 3)]
        copies(f"c{number}", *names, in_library=photos, size=100 * (number % 4), mtime_ns=number // 2)
    copies("both", "a", in_library=photos, size=50)
    copies("both", "a", in_library=backup, size=50)


# --- Orders and cursors -------------------------------------------------------------------------------------
FIGURES: dict[str, Callable[[DuplicateGroup], tuple[int, ...]]] = {
    "copies": lambda group: (-group.file_count, -group.total_size_bytes),
    "reclaimable": lambda group: (-group.reclaimable_bytes,),
    "newest": lambda group: (-group.newest_ns,),
    "size": lambda group: (-group.size_bytes,),
}


@pytest.mark.usefixtures("many")
def test_pages_list_each_group_once_in_their_order() -> None:
    assert set(ORDERS) == set(FIGURES)
    for order, figures in FIGURES.items():
        for size in (1, 3, 13, 100):
            found = walk(order=order, size=size)

            def place(group: DuplicateGroup, order: str = order, figures: Any = figures) -> tuple[Any, ...]:
                return (*figures(group), group.key if order == "copies" else group.sample_file_id)

            groups = sorted(DuplicateGroup.objects.all(), key=place)
            assert found == [group.key for group in groups]
            assert len(found) == 13


@pytest.mark.usefixtures("many")
def test_a_cursor_of_the_protocols_order_is_the_protocols() -> None:
    page = listing.page(ALL, "copies", None, 5)
    assert page.next_cursor is not None
    payload = json.loads(base64.urlsafe_b64decode(page.next_cursor + "=" * (-len(page.next_cursor) % 4)))
    last = page.groups[-1]
    assert payload == {
        "file_count": last.file_count,
        "total_size_bytes": last.total_size_bytes,
        "hash_algorithm": "sha256",
        "content_hash_hex": bytes(last.content_hash).hex(),
    }
    padded = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode()
    again = listing.page(ALL, "copies", padded, 5)
    assert again.groups == listing.page(ALL, "copies", page.next_cursor, 5).groups


def test_a_page_may_end_with_a_group_of_empty_files(photos: LibraryRoot) -> None:
    copies("nothing", "a", "b", in_library=photos, size=0)
    copies("something", "c", "d", in_library=photos, size=0)
    for order in ORDERS:
        assert len(set(walk(order=order, size=1))) == 2


@pytest.mark.usefixtures("many")
def test_a_cursor_holds_when_its_group_is_gone() -> None:
    for order in ORDERS:
        before = walk(order=order)
        page = listing.page(ALL, order, None, 4)
        LibraryFile.objects.filter(content_hash=page.groups[-1].content_hash).delete()
        rest = [group.key for group in listing.page(ALL, order, page.next_cursor, 100).groups]
        assert rest == before[4:]


def encoded(payload: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(payload).encode()).decode()


GOOD = {
    "file_count": 2,
    "total_size_bytes": 20,
    "hash_algorithm": "sha256",
    "content_hash_hex": "0f" * 32,
}


BAD = [
    "",
    "x",
    "é",
    "!!!!",
    "5",
    encoded([]),
    encoded({}),
    encoded("text"),
    encoded(GOOD | {"file_count": "2"}),
    encoded(GOOD | {"file_count": True}),
    encoded(GOOD | {"file_count": 2.0}),
    encoded(GOOD | {"total_size_bytes": 2**63}),
    encoded(GOOD | {"hash_algorithm": "md5"}),
    encoded(GOOD | {"hash_algorithm": None}),
    encoded(GOOD | {"content_hash_hex": "0f"}),
    encoded(GOOD | {"content_hash_hex": "zz" * 32}),
    encoded(GOOD | {"more": 1}),
    encoded({key: value for key, value in GOOD.items() if key != "total_size_bytes"}),
    encoded({"order": "size", "size_bytes": 1, "sample_file_id": 1}),
    base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    base64.urlsafe_b64encode(b"[" * 700).decode(),
    "A" * 5000,
]


SIZED = {"order": "size", "size_bytes": 1, "sample_file_id": 1}
BAD_SIZED = [
    encoded(GOOD),
    encoded(SIZED | {"order": "newest"}),
    encoded(SIZED | {"sample_file_id": "1"}),
    encoded(SIZED | {"sample_file_id": True}),
    encoded(SIZED | {"sample_file_id": 2**63}),
    encoded(SIZED | {"size_bytes": None}),
    encoded({"order": "size", "size_bytes": 1, "hash_algorithm": "sha256", "content_hash_hex": "0f" * 32}),
]


def test_any_other_cursor_is_refused() -> None:
    for order, cursors in (("copies", BAD), ("size", BAD_SIZED)):
        for cursor in cursors:
            with pytest.raises(BadCursor):
                listing.page(ALL, order, cursor, 5)


@pytest.mark.usefixtures("many")
def test_a_cursor_of_one_order_is_none_of_another() -> None:
    made = {order: listing.page(ALL, order, None, 5).next_cursor for order in ORDERS}
    for order in ORDERS:
        for other, cursor in made.items():
            if order == other:
                assert listing.page(ALL, order, cursor, 5).groups
            else:
                with pytest.raises(BadCursor):
                    listing.page(ALL, order, cursor, 5)


@given(
    st.sampled_from(sorted(ORDERS)),
    st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=2, max_size=2),
    st.binary(min_size=32, max_size=32),
    st.sampled_from(["blake3", "sha256"]),
)
def test_every_cursor_that_can_be_made_is_accepted(order: str, figures: list[int], digest: bytes, name: str) -> None:
    chosen = ORDERS[order]
    last = (name, digest) if order == "copies" else (figures[-1],)
    anchor = (*figures[: len(chosen.figures)], *last)
    assert chosen.place(chosen.cursor(anchor)) == anchor


def test_an_unknown_order_is_refused_in_words() -> None:
    with pytest.raises(BadFilter, match="copies, reclaimable, newest, size"):
        listing.page(ALL, "colour", None, 5)


# --- One group ----------------------------------------------------------------------------------------------
def test_one_group_is_found_by_its_key(photos: LibraryRoot) -> None:
    copies("x", "a", "b", in_library=photos)
    found = listing.one(f"  {key_of('x').upper()} ")
    assert found is not None
    assert (found.key, found.file_count) == (key_of("x"), 2)
    LibraryFile.objects.filter(relative_path="b").update(is_missing=True)
    assert listing.one(key_of("x")) is None


def test_a_malformed_key_says_what_is_wrong() -> None:
    for key, wrong in [
        ("", "<algorithm>:<digest>"),
        ("sha256", "<algorithm>:<digest>"),
        ("md5:" + "0" * 32, "md5"),
        ("sha256:abc", "64 hexadecimal digits; this one has 3"),
        ("blake3:" + "g" * 64, "0-9 and a-f"),
        ("blake3:" + "٣" * 64, "0-9 and a-f"),
    ]:
        with pytest.raises(BadGroupKey, match=wrong):
            listing.one(key)


# --- Filters ------------------------------------------------------------------------------------------------
@pytest.fixture
def varied(photos: LibraryRoot, backup: LibraryRoot) -> None:
    """One group for each thing that can be asked for."""
    copies("small", "s1", "s2", in_library=photos, size=1)
    copies("big", "b1", "b2", in_library=photos, size=5_000)
    copies("empty", "e1", "e2", in_library=photos, size=0)
    copies("both", "2024/x.tiff", in_library=photos)
    copies("both", "x.tiff", in_library=backup)
    copies("inside", "sub folder/deep/a.JPG", "elsewhere/a", in_library=photos)
    copies("beside", "sub folder2/a.mp3", "sub folder.mp3", in_library=photos)
    copies("there", "sub folder/a.MOV", "b.mov", in_library=backup)
    copies("ignored", "i1", "i2", in_library=photos)
    copies("gone", "sub folder/gone.jpg", in_library=photos, is_missing=True)
    copies("gone", "g1", "g2", in_library=photos)
    IgnoredGroup.objects.create(hash_algorithm="sha256", content_hash=digest_of("ignored"), ignored_by="vera")


@pytest.mark.usefixtures("varied")
@pytest.mark.parametrize("from_the_other_end", [True, False])
def test_each_filter_finds_its_groups(
    photos: LibraryRoot, backup: LibraryRoot, monkeypatch: pytest.MonkeyPatch, from_the_other_end: bool
) -> None:
    if not from_the_other_end:
        monkeypatch.setattr(searching, "MOST_DIGESTS", -1)
    usual = {"small", "big", "both", "inside", "beside", "there", "gone"}
    for filter, expected in [
        (Filter(), usual),
        (ALL, usual | {"empty", "ignored"}),
        (Filter(least_bytes=0), usual | {"empty"}),
        (Filter(least_bytes=10), usual - {"small"}),
        (Filter(least_bytes=5_001), set()),
        (Filter(library=backup.pk), {"both", "there"}),
        (Filter(library=photos.pk), usual - {"there"}),
        (Filter(library=photos.pk * 10 + 1), set()),
        (Filter(copy_in=backup.pk), {"both", "there"}),
        (Filter(library=photos.pk, copy_in=backup.pk), {"both"}),
        (Filter(spans=True), {"both"}),
        (Filter(ignored="only"), {"ignored"}),
        (Filter(ignored="all"), usual | {"ignored"}),
        (Filter(library=photos.pk, folder="sub folder"), {"inside"}),
        (Filter(library=photos.pk, folder="sub folder/deep"), {"inside"}),
        (Filter(library=photos.pk, folder="SUB FOLDER"), set()),
        (Filter(library=photos.pk, folder="s%"), set()),
        (Filter(library=backup.pk, folder="sub folder"), {"there"}),
        (Filter(extension="jpg"), {"inside"}),
        (Filter(extension="mov"), {"there"}),
        (Filter(extension="pg"), set()),
        (Filter(extension="_pg"), set()),
        (Filter(media="image"), {"both", "inside"}),
        (Filter(media="video"), {"there"}),
        (Filter(media="audio"), {"beside"}),
        (Filter(media="archive"), set()),
        (Filter(media="image", extension="tiff", spans=True), {"both"}),
        (Filter(library=photos.pk, folder="sub folder", media="image"), {"inside"}),
        (Filter(library=photos.pk, folder="sub folder", ignored="only"), set()),
    ]:
        keys = {key_of(name) for name in expected}
        for order in ORDERS:
            found = walk(filter, order, 2)
            assert (set(found), len(found)) == (keys, len(keys)), (filter, order)
        groups = list(DuplicateGroup.objects.all())
        chosen = [group for group in groups if group.key in keys]
        assert listing.totals(filter) == Totals(
            len(chosen),
            sum(group.file_count for group in chosen),
            sum(group.reclaimable_bytes for group in chosen),
            True,
        ), filter


def test_names_that_are_no_text_are_filtered_as_they_are_stored(photos: LibraryRoot) -> None:
    folder = to_text(b"caf\xe9")
    copies("x", f"{folder}/a", "b", in_library=photos)
    copies("y", "café/a", "c", in_library=photos)
    query = Filter(library=photos.pk, folder=folder).query()
    assert walk(Filter.parse(QueryDict(query))) == [key_of("x")]


def test_every_extension_has_one_media_type() -> None:
    listed = [extension for extensions in MEDIA.values() for extension in extensions]
    assert len(listed) == len(set(listed))
    assert all(extension == extension.lower() and "." not in extension for extension in listed)


filters = st.builds(
    Filter,
    library=st.integers(0, 2**63 - 1),
    folder=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/."), max_size=8).map(
        lambda name: f"{name}/ x" if name else ""
    ),
    extension=st.text(st.characters(exclude_categories=["Cs", "Lu", "Z", "Cc"], exclude_characters="\0/."), max_size=5),
    media=st.sampled_from(["", *MEDIA]),
    least_bytes=st.integers(0, 2**63 - 1),
    spans=st.booleans(),
    copy_in=st.none() | st.integers(0, 99),
    ignored=st.sampled_from(["no", "only", "all"]),
)


@given(filters)
def test_a_filter_stands_in_an_address_and_comes_back(filter: Filter) -> None:
    assert Filter.parse(QueryDict(filter.query())) == filter


def test_a_filter_is_read_as_people_write_it() -> None:
    assert Filter.parse({}) == Filter()
    assert Filter().query() == ""
    assert Filter.parse({"cursor": "x", "order": "size", "least_bytes": "", "extension": " .JPG "}) == Filter(
        extension="jpg"
    )
    assert Filter.parse({"library": "7", "folder": "/a//b/"}) == Filter(library=7, folder="a/b")
    assert Filter.parse({"library": "7", "folder": "/"}) == Filter(library=7)
    assert Filter.parse({"spans": "on"}) == Filter.parse({"spans": "1"}) == Filter(spans=True)
    assert Filter.parse({"least_bytes": "0"}) == Filter(least_bytes=0)


def test_a_filter_that_can_not_be_used_says_why() -> None:
    for params, words in [
        ({"library": "x"}, "Library is a number"),
        ({"library": "-1"}, "Library is a number"),
        ({"library": "٣"}, "Library is a number"),
        ({"copy_in": "1e3"}, "is a number"),
        ({"least_bytes": str(2**63)}, "Least size is a number"),
        ({"folder": "a"}, "Choose the library"),
        ({"folder": "a/../b", "library": "1"}, "without"),
        ({"folder": "a\0", "library": "1"}, "character"),
        ({"extension": "a/b"}, "not the extension"),
        ({"extension": "\ud800"}, "character"),
        ({"media": "song"}, "image, video"),
        ({"ignored": "maybe"}, "no, only, all"),
        ({"spans": "perhaps"}, "1 or 0"),
    ]:
        with pytest.raises(BadFilter, match=words):
            Filter.parse(params)


# --- Bounded work -------------------------------------------------------------------------------------------
def test_a_page_whose_time_is_up_is_short_and_goes_on(photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_WINDOW", 3)
    monkeypatch.setattr(searching, "LARGEST_WINDOW", 5)
    for number in range(40):
        copies(f"c{number}", f"{number}/a.{'mp3' if number % 13 == 0 else 'x'}", f"{number}/b", in_library=photos)
    summary.bring_up_to_date()
    songs = {key_of(f"c{number}") for number in range(0, 40, 13)}
    page = listing.page(Filter(media="audio"), "size", None, 1, seconds=0)
    assert len(page.groups) <= 1
    assert page.is_complete
    shorts = 0
    for order in ORDERS:
        found, cursor = [], None
        while True:
            page = listing.page(Filter(media="audio"), order, cursor, 2, seconds=0)
            found += [group.key for group in page.groups]
            shorts += page.is_short
            cursor = page.next_cursor
            if cursor is None:
                break
        assert (set(found), len(found)) == (songs, 4)
        assert set(walk(Filter(media="audio"), order, 2)) == songs, "and without a limit"
    assert shorts > 4
    with CaptureQueriesContext(connection) as queries:
        listing.page(Filter(media="audio"), "size", None, 100, seconds=0)
    reading = [query["sql"] for query in queries if "library_files f" in query["sql"]]
    assert len(reading) == 1, "one window, then the time is up"


@pytest.mark.usefixtures("many")
def test_what_is_not_counted_yet_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST", 2)
    page = listing.page(ALL, "copies", None, 5, seconds=-1)
    assert not page.is_complete
    assert listing.totals(ALL, seconds=-1).is_exact is False
    assert listing.page(ALL, "copies", None, 5).is_complete


def test_totals_that_took_too_long_say_at_least(photos: LibraryRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LARGEST_WINDOW", 4)
    for number in range(10):
        copies(f"c{number}", f"{number}.mp3", f"{number}", in_library=photos)
    summary.bring_up_to_date()
    assert listing.totals(Filter(media="audio"), seconds=-1) == Totals(4, 8, 40, False)
    assert listing.totals(Filter(media="audio")) == Totals(10, 20, 100, True)
    assert listing.totals(Filter(), seconds=-1) == Totals(10, 20, 100, True), "the groups' own rows say it"


def test_what_kind_of_file_a_content_is_its_first_copies_tell(
    monkeypatch: pytest.MonkeyPatch, photos: LibraryRoot
) -> None:
    copies("litter", *(f"{number}/Thumbs.db" for number in range(5)), "last.mp4", in_library=photos)
    assert walk(Filter(media="video")) == [key_of("litter")]
    monkeypatch.setattr(filtering, "MOST_NAMES", 5)
    assert walk(Filter(media="video")) == []
    assert walk(Filter(extension="mp4")) == [key_of("litter")], "an extension is looked for in all of them"


@pytest.mark.usefixtures("many")
def test_totals_that_took_long_are_kept(monkeypatch: pytest.MonkeyPatch, photos: LibraryRoot) -> None:
    first = listing.totals(ALL)
    copies("new", "n1", "n2", in_library=photos)
    assert listing.totals(ALL).groups == first.groups + 1, "quick ones are not"
    monkeypatch.setattr(slow_figures, "QUICK_SECONDS", -1.0)
    kept = listing.totals(ALL)
    copies("newer", "n3", "n4", in_library=photos)
    with CaptureQueriesContext(connection) as queries:
        assert listing.totals(ALL) == kept
    assert not queries.captured_queries
    assert listing.totals(replace(ALL, least_bytes=1)) != kept


@pytest.mark.usefixtures("many")
def test_every_goes_on_from_any_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 4)
    pages = list(listing.every(ALL, "size"))
    assert [len(groups) for groups, _ in pages] == [4, 4, 4, 1]
    assert pages[-1][1] is None
    keys = [group.key for groups, _ in pages for group in groups]
    assert keys == walk(ALL, "size")
    rest = listing.every(ALL, "size", after=pages[1][1])
    assert [group.key for groups, _ in rest for group in groups] == keys[8:]
    assert list(listing.every(Filter(least_bytes=9_999))) == [([], None)]


# --- The price of a page ------------------------------------------------------------------------------------
INDEXES = {
    "copies": "ix_duplicate_groups_files",
    "reclaimable": "ix_duplicate_groups_reclaim",
    "newest": "ix_duplicate_groups_newest",
    "size": "ix_duplicate_groups_size",
}


def plan_of(sql: str) -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            return "\n".join(row[3] for row in cursor.fetchall())
        # So few rows are quicker read one by one; what matters is whether it can be done without a sort.
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("SET enable_bitmapscan = off")
        cursor.execute("SET enable_sort = off")
        cursor.execute(f"EXPLAIN {sql}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
        cursor.execute("RESET enable_bitmapscan")
        cursor.execute("RESET enable_sort")
        return plan


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("order", ORDERS)
def test_a_page_walks_its_index_and_sorts_nothing(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_WINDOW", 1)
    first = listing.page(ALL, order, None, 2)
    for filter in (ALL, Filter(), Filter(media="image"), Filter(spans=True)):
        with CaptureQueriesContext(connection) as queries:
            listing.page(filter, order, first.next_cursor, 2)
        asked = [query["sql"] for query in queries if "ORDER BY g.by_" in query["sql"]]
        assert len(asked) >= (1 if filter == ALL else 2)
        for sql in asked:
            plan = plan_of(sql)
            assert INDEXES[order] in plan, plan
            assert "Sort" not in plan, plan
            assert "TEMP B-TREE" not in plan, plan
            if connection.vendor == "sqlite":
                assert f"SEARCH g USING INDEX {INDEXES[order]} (" in plan.replace("COVERING ", ""), plan
