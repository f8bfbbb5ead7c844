"""Libraries over HTTP: who may do what, what comes back, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from accounts.models import Role
from libraries.models import (
    HashRun,
    HashState,
    LibraryFile,
    LibraryRoot,
    LibraryState,
    ScanError,
    ScanRequest,
    ScanSession,
)
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import with_token
from tests.tree import tree

pytestmark = pytest.mark.django_db
API = "/api/v1/libraries"


@pytest.fixture
def admin() -> Client:
    return with_token(Role.ADMIN)


def add(client: Client, path: Path | str, name: str = "Photos", **choices: Any) -> Any:
    return client.post(API, {"name": name, "path": str(path), **choices}, content_type="application/json")


def test_an_admin_adds_changes_pauses_and_removes(admin: Client, disk: Path) -> None:
    tree(disk / "photos", {"a.jpg": b"1"})
    added = add(admin, disk / "photos", role="backup", exclude_patterns=["*.tmp"], scan_interval_minutes=60)
    assert added.status_code == 201
    item = added.json()
    assert (item["name"], item["root_path"], item["role"], item["mount"]) == (
        "Photos",
        str(disk / "photos"),
        "backup",
        "present",
    )
    assert (item["is_writable"], item["findings_only"], item["exclude_patterns"]) == (True, False, ["*.tmp"])
    assert item["next_scan_at"].endswith("Z")
    one = f"{API}/{item['id']}"
    changed = admin.patch(one, {"name": "Pictures", "protected_folders": ["best/"]}, content_type="application/json")
    assert (changed.json()["name"], changed.json()["protected_folders"]) == ("Pictures", ["best"])
    assert admin.post(f"{one}/pause").json()["is_paused"]
    assert not admin.post(f"{one}/resume").json()["is_paused"]
    assert [each["name"] for each in admin.get(API).json()["items"]] == ["Pictures"]
    assert admin.delete(one).status_code == 202
    assert admin.get(one).status_code == 404
    assert admin.get(API).json() == {"items": []}
    assert (disk / "photos" / "a.jpg").exists()
    events = LogbookEvent.objects.about("library_roots", item["id"]).values_list("event_type", "actor")
    assert [event for event, _ in events] == ["added", "changed", "paused", "resumed", "removed"]
    assert {actor for _, actor in events} == {"admin via token script"}


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.VIEWER, set()),
        (Role.OPERATOR, {"pause", "resume"}),
        (Role.ADMIN, {"pause", "resume", "change", "remove", "add"}),
    ],
)
def test_a_viewer_reads_an_operator_pauses_an_admin_decides(role: Role, allowed: set[str], disk: Path) -> None:
    tree(disk, {"photos/a": b"1", "new/a": b"1"})
    one = f"{API}/{factories.library('photos', str(disk / 'photos')).pk}"
    client = with_token(role)
    for path in (API, one, f"{one}/errors"):
        assert client.get(path).status_code == 200
    answers = {
        "pause": client.post(f"{one}/pause"),
        "resume": client.post(f"{one}/resume"),
        "change": client.patch(one, {"name": "x"}, content_type="application/json"),
        "add": add(client, disk / "new", "New"),
        "remove": client.delete(one),
    }
    assert {verb for verb, answer in answers.items() if answer.status_code != 403} == allowed
    assert all(answers[verb].status_code < 300 for verb in allowed)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "a", "path": "/etc"}, 409),
        ({"name": "a", "path": "{disk}/../x"}, 409),
        ({"name": "a", "path": "relative"}, 409),
        ({"name": "a", "path": "{disk}/none"}, 409),
        ({"name": "a", "path": "{disk}/a", "scan_cron": "x"}, 409),
        ({"name": "taken", "path": "{disk}/a"}, 409),
        ({"name": "a\0", "path": "{disk}/a"}, 422),
        ({"name": "a", "path": "{disk}/a\0"}, 422),
        ({"name": " ", "path": "{disk}/a"}, 422),
        ({"name": "a", "path": ""}, 422),
        ({"name": "a"}, 422),
        ({"name": "a", "path": "{disk}/a", "rol": "backup"}, 422),
        ({"name": "a", "path": "{disk}/a", "min_size_bytes": -1}, 422),
        ({"name": "a", "path": "{disk}/a", "min_size_bytes": 2**70}, 422),
        ({"name": "a", "path": "{disk}/a", "role": "king"}, 422),
    ],
)
def test_what_can_not_be_is_refused_in_one_sentence(
    admin: Client, disk: Path, body: dict[str, Any], status: int
) -> None:
    (disk / "a").mkdir()
    factories.library("taken")
    sent = {key: value.replace("{disk}", str(disk)) if isinstance(value, str) else value for key, value in body.items()}
    answer = admin.post(API, sent, content_type="application/json")
    assert answer.status_code == status, answer.content
    assert isinstance(answer.json()["detail"], str)
    assert LibraryRoot.objects.count() == 1


def test_a_library_that_is_not_there_is_404(admin: Client) -> None:
    for key in ("99", "9" * 30):
        assert admin.get(f"{API}/{key}").status_code == 404
        assert admin.delete(f"{API}/{key}").status_code == 404
        assert admin.post(f"{API}/{key}/pause").status_code == 404
    assert admin.get(f"{API}/x").status_code == 404


def test_removing_is_refused_while_the_disk_is_away(admin: Client, disk: Path) -> None:
    one = f"{API}/{factories.library('photos', str(disk / 'gone')).pk}"
    assert admin.delete(one).status_code == 409
    assert admin.delete(f"{one}?even_if_unseen=true").status_code == 202


def test_an_item_tells_what_was_last_found(admin: Client) -> None:
    library = factories.library("photos", "/srv/caf\uf7e9")
    LibraryState.objects.create(
        library=library, mount="absent", mount_note="gone", is_writable=False, file_count=3, error_count=2, gone_count=1
    )
    item = admin.get(f"{API}/{library.pk}").json()
    assert (item["root_path"], item["root_path_raw"]) == ("/srv/caf\\xe9", "/srv/caf\uf7e9")
    assert (item["mount"], item["mount_note"], item["findings_only"]) == ("absent", "gone", True)
    assert (item["file_count"], item["error_count"], item["gone_count"]) == (3, 2, 1)
    unknown = admin.get(f"{API}/{factories.library('other').pk}").json()
    assert (unknown["mount"], unknown["is_writable"], unknown["findings_only"]) == ("unknown", None, False)


def test_errors_come_page_by_page_scans_first(admin: Client) -> None:
    library, other = factories.library("photos"), factories.library("other")
    session = ScanSession.objects.create(library=library)
    for n in range(3):
        ScanError.objects.create(
            library=library,
            session=session,
            relative_path=f"dir{n}",
            is_folder=True,
            reason="EACCES: Permission denied",
        )
        factories.library_file(f"file{n}", library, hash_error_count=n, hash_last_error="EIO", hash_last_error_at=Now())
    factories.library_file("not ours", other, hash_error_count=1)
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = admin.get(f"{API}/{library.pk}/errors?limit=2{cursor}").json()
        found += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert [(each["source"], each["relative_path"]) for each in found] == [
        *(("scan", f"dir{n}") for n in range(3)),
        ("hash", "file1"),
        ("hash", "file2"),
    ]
    assert found[0]["is_folder"]
    assert (found[-1]["reason"], found[-1]["tries"]) == ("EIO", 2)
    for cursor in ("x", "scan-", "scan-x", "hash-" + "9" * 30, "scan-²"):
        assert admin.get(f"{API}/{library.pk}/errors", {"cursor": cursor}).status_code == 422


def test_every_table_of_the_room_can_be_looked_at_in_the_admin() -> None:
    browser = Client()
    browser.force_login(factories.user(role=Role.ADMIN))
    file = factories.library_file("a", sample_hash=b"s" * 32)
    LibraryState.objects.create(library=file.library)
    session = ScanSession.objects.create(library=file.library)
    ScanError.objects.create(library=file.library, session=session, relative_path="a", reason="EIO")
    ScanRequest.objects.create(library=file.library)
    HashState.objects.create(pk=1)
    HashRun.objects.create(job=factories.finished_job("hash"))
    for model in (LibraryRoot, LibraryState, LibraryFile, ScanSession, ScanError, ScanRequest, HashState, HashRun):
        name = f"admin:libraries_{model._meta.model_name}"
        assert browser.get(reverse(f"{name}_changelist")).status_code == 200
        row = model._default_manager.get()
        assert browser.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200
        assert browser.get(reverse(f"{name}_add")).status_code == 403
        assert browser.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
