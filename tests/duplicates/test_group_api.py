"""Groups over `/api/v1/duplicates`, as the protocol writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from accounts.models import Role
from duplicates.models import IgnoredGroup
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests import factories
from tests.duplicates.contents import copies, digest_of, foreign_writer, key_of
from tests.pages import with_token

pytestmark = pytest.mark.django_db

GROUPS = "/api/v1/duplicates/groups"
GROUP_FIELDS = {
    "group_key", "hash_algorithm", "content_hash_hex", "file_count", "total_size_bytes", "duplicate_waste_bytes",
    "sample_file_id", "size_bytes", "inode_count", "reclaimable_bytes", "is_ignored",
}  # fmt: skip
FILE_FIELDS = {
    "file_id", "library_id", "library_name", "relative_path", "relative_path_raw", "size_bytes", "mtime_ns",
    "hashed_at",
}  # fmt: skip


@pytest.fixture
def viewer() -> Client:
    return with_token(Role.VIEWER)


@pytest.fixture
def operator() -> Client:
    return with_token(Role.OPERATOR)


@pytest.fixture
def photos() -> LibraryRoot:
    return factories.library("photos")


def ignore(client: Client, address: str, body: Any = None) -> Any:
    data = "" if body is None else json.dumps(body)
    return client.post(address, data, content_type="application/json")


def groups(client: Client, **asked: Any) -> Any:
    answer = client.get(GROUPS, asked)
    assert answer.status_code == 200, answer.json()
    return answer.json()


def walk(client: Client, address: str = GROUPS, **asked: Any) -> list[Any]:
    found: list[Any] = []
    while True:
        page = client.get(address, asked).json()
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        asked["cursor"] = page["next_cursor"]


# --- Groups -------------------------------------------------------------------------------------------------
def test_a_group_has_the_protocols_fields_and_ours(viewer: Client, photos: LibraryRoot) -> None:
    files = copies("x", "a", "b", in_library=photos, size=10)
    copies("x", "c", in_library=photos, size=10, inode=files[0].inode, nlink=2)
    LibraryFile.objects.filter(pk=files[0].pk).update(nlink=2)
    copies("alone", "d", in_library=photos)
    (item,) = groups(viewer)["items"]
    assert set(item) == GROUP_FIELDS
    assert item == {
        "group_key": key_of("x"),
        "hash_algorithm": "sha256",
        "content_hash_hex": digest_of("x").hex(),
        "file_count": 3,
        "total_size_bytes": 30,
        "duplicate_waste_bytes": 20,
        "sample_file_id": files[0].pk,
        "size_bytes": 10,
        "inode_count": 2,
        "reclaimable_bytes": 10,
        "is_ignored": False,
    }


def test_all_that_changed_is_counted_before_it_is_told(viewer: Client, photos: LibraryRoot) -> None:
    copies("x", "a", "b", in_library=photos)
    assert [item["file_count"] for item in groups(viewer)["items"]] == [2]
    with foreign_writer() as foreign:
        columns = ("library_id", "relative_path", "size_bytes", "mtime_ns", "needs_hash", "hash_algorithm")
        values = (photos.pk, "c", 10, 1, False, "sha256")
        foreign.insert((*columns, "content_hash"), (*values, digest_of("x")))
        assert [item["file_count"] for item in groups(viewer)["items"]] == [3]
        foreign.run("UPDATE library_files SET is_missing = %s WHERE relative_path <> 'a'", True)
    assert groups(viewer) == {"items": [], "next_cursor": None}


def test_empty_and_ignored_groups_are_listed_unless_left_out(operator: Client, photos: LibraryRoot) -> None:
    copies("empty", "a", "b", in_library=photos, size=0)
    copies("ignored", "c", "d", in_library=photos)
    ignore(operator, f"{GROUPS}/{key_of('ignored')}/ignore")
    told = {item["group_key"]: item["is_ignored"] for item in walk(operator, limit=1)}
    assert told == {key_of("empty"): False, key_of("ignored"): True}
    assert [item["group_key"] for item in walk(operator, ignored="no")] == [key_of("empty")]
    assert [item["group_key"] for item in walk(operator, least_bytes=1)] == [key_of("ignored")]


def test_pages_follow_their_cursors_in_every_order(viewer: Client, photos: LibraryRoot) -> None:
    for number in range(7):
        copies(f"c{number}", *(f"{number}/{copy}" for copy in range(2 + number % 2)), in_library=photos, size=number)
    for order in ("copies", "reclaimable", "newest", "size"):
        found = [item["group_key"] for item in walk(viewer, limit=2, order=order)]
        assert len(found) == len(set(found)) == 7
    sizes = [item["size_bytes"] for item in walk(viewer, limit=3, order="size")]
    assert sizes == [6, 5, 4, 3, 2, 1, 0]
    counts = [(item["file_count"], item["total_size_bytes"]) for item in walk(viewer, limit=3)]
    assert counts == sorted(counts, reverse=True)


def test_filters_stand_in_the_address(viewer: Client, photos: LibraryRoot) -> None:
    other = factories.library("other")
    copies("x", f"{to_text(b'caf' + bytes([233]))}/a.JPG", in_library=photos, size=5)
    copies("x", "b", in_library=other, size=5)
    copies("y", "c", "d", in_library=photos, size=50)
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"library": other.pk}, ["x"]),
        ({"library": photos.pk, "folder": to_text(b"caf\xe9")}, ["x"]),
        ({"extension": ".jpg"}, ["x"]),
        ({"media": "image"}, ["x"]),
        ({"least_bytes": 6}, ["y"]),
        ({"spans": "true"}, ["x"]),
        ({"spans": "0"}, ["y", "x"]),
        ({"copy_in": photos.pk, "library": other.pk}, ["x"]),
        ({"ignored": "only"}, []),
    ]
    for asked, expected in cases:
        found = [item["group_key"] for item in groups(viewer, **asked)["items"]]
        assert found == [key_of(name) for name in expected], asked


def test_what_can_not_be_used_is_refused_in_words(viewer: Client) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"limit": 0}, "greater than or equal to 1"),
        ({"limit": 1001}, "less than or equal to 1000"),
        ({"cursor": "nonsense"}, "cursor: 'nonsense' is not a cursor of this list"),
        ({"cursor": ""}, "cursor"),
        ({"order": "colour"}, "'copies', 'reclaimable', 'newest' or 'size'"),
        ({"folder": "a"}, "library"),
        ({"library": 2**63}, "less than or equal to"),
        ({"least_bytes": -1}, "greater than or equal to 0"),
        ({"media": "song"}, "'archive'"),
        ({"extension": "a/b"}, "extension"),
        ({"folder": "a\0"}, "NUL"),
    ]
    for asked, words in cases:
        answer = viewer.get(GROUPS, asked)
        assert answer.status_code == 422, asked
        assert words in answer.json()["detail"]


# --- Files --------------------------------------------------------------------------------------------------
def test_files_have_the_protocols_fields(viewer: Client, photos: LibraryRoot) -> None:
    first, second = copies("x", to_text(b"caf\xe9\n"), "b", in_library=photos, size=7, mtime_ns=-5)
    page = viewer.get(f"{GROUPS}/ {key_of('x').upper()} /files").json()
    assert page["next_cursor"] is None
    assert [set(item) for item in page["items"]] == [FILE_FIELDS, FILE_FIELDS]
    assert page["items"][0] == {
        "file_id": first.pk,
        "library_id": photos.pk,
        "library_name": "photos",
        "relative_path": "caf\\xe9\\n",
        "relative_path_raw": to_text(b"caf\xe9\n"),
        "size_bytes": 7,
        "mtime_ns": -5,
        "hashed_at": None,
    }
    assert page["items"][1]["file_id"] == second.pk


def test_files_come_in_the_order_of_their_ids(viewer: Client, photos: LibraryRoot) -> None:
    files = copies("x", *"edcba", in_library=photos)
    copies("x", "missing", in_library=photos, is_missing=True)
    copies("x", "changed", in_library=photos, needs_hash=True)
    copies("y", "f", "g", in_library=photos)
    address = f"{GROUPS}/{key_of('x')}/files"
    page = viewer.get(address, {"limit": 2}).json()
    assert page["next_cursor"] == str(files[1].pk)
    assert [item["file_id"] for item in walk(viewer, address, limit=2)] == [file.pk for file in files]
    LibraryFile.objects.filter(pk=files[1].pk).delete()
    rest = walk(viewer, address, limit=2, cursor=page["next_cursor"])
    assert [item["file_id"] for item in rest] == [file.pk for file in files[2:]], "the anchor is gone"


def test_an_unknown_content_has_no_files(viewer: Client) -> None:
    answer = viewer.get(f"{GROUPS}/{key_of('x')}/files")
    assert (answer.status_code, answer.json()) == (200, {"items": [], "next_cursor": None})


def test_a_malformed_key_is_refused_in_words(operator: Client) -> None:
    for key, words in [
        ("x", "<algorithm>:<digest>"),
        ("md5:" + "0" * 32, "no hash algorithm"),
        ("sha256:" + "0" * 63, "64 hexadecimal digits; this one has 63"),
        ("sha256:" + "x" * 64, "0-9 and a-f"),
    ]:
        for answer in (
            operator.get(f"{GROUPS}/{key}/files"),
            ignore(operator, f"{GROUPS}/{key}/ignore"),
            operator.delete(f"{GROUPS}/{key}/ignore"),
        ):
            assert answer.status_code == 422
            assert words in answer.json()["detail"]


def test_a_cursor_that_is_no_id_is_refused(viewer: Client) -> None:
    for cursor in ("", "x", "-1", "1.5", "٣", str(2**63), "1 "):
        answer = viewer.get(f"{GROUPS}/{key_of('x')}/files", {"cursor": cursor})
        assert answer.status_code == 422, cursor
        assert "is not a cursor of this list" in answer.json()["detail"]


# --- Ignoring -----------------------------------------------------------------------------------------------
def test_an_operator_ignores_a_group_and_takes_it_back(operator: Client, photos: LibraryRoot) -> None:
    copies("x", "a", "b", in_library=photos)
    address = f"{GROUPS}/{key_of('x')}/ignore"
    told = ignore(operator, address, {"note": "two on purpose"})
    assert told.status_code == 200
    assert told.json()["ignored_at"].endswith("Z")
    assert {**told.json(), "ignored_at": ""} == {
        "group_key": key_of("x"),
        "note": "two on purpose",
        "ignored_by": "operator via token script",
        "ignored_at": "",
    }
    assert groups(operator)["items"][0]["is_ignored"] is True
    assert operator.delete(address).status_code == 204
    assert operator.delete(address).status_code == 204
    assert groups(operator)["items"][0]["is_ignored"] is False
    events = LogbookEvent.objects.about("duplicate_groups", key_of("x"))
    assert [event.event_type for event in events] == ["ignored", "no longer ignored"]


def test_a_note_that_can_not_be_kept_is_refused(operator: Client) -> None:
    address = f"{GROUPS}/{key_of('x')}/ignore"
    bodies: list[Any] = [{"note": "x" * 256}, {"nota": "x"}, {"note": 5}, []]
    for body in bodies:
        assert ignore(operator, address, body).status_code == 422, body
    assert not IgnoredGroup.objects.exists()


def test_a_viewer_reads_and_a_stranger_does_not(viewer: Client, photos: LibraryRoot) -> None:
    copies("x", "a", "b", in_library=photos)
    address = f"{GROUPS}/{key_of('x')}/ignore"
    assert ignore(viewer, address).status_code == 403
    assert viewer.delete(address).status_code == 403
    assert not IgnoredGroup.objects.exists()
    for answer in (Client().get(GROUPS), Client().get(f"{GROUPS}/{key_of('x')}/files"), ignore(Client(), address)):
        assert answer.status_code == 401
