"""Choosing a folder on the server: what is shown, and that nothing leads out of the libraries' roots."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from accounts.models import Role
from libraries import asking, browsing, picking
from libraries.asking import Question
from libraries.models import LibraryRoot
from libraries.names import to_text
from tests import factories
from tests.libraries.dead_disk import dead_disk
from tests.pages import HTMX, QueryCounter, logged_in, text_of, words_of
from tests.tree import tree
from tests.waiting import until

pytestmark = pytest.mark.django_db
ADDRESS = "/libraries/pick/"


def key(path: Path | bytes) -> str:
    return os.fsencode(path).hex()


def listed(path: Path | bytes) -> list[str]:
    return [folder.name for folder in picking.read(os.fsencode(path)).folders]


def make(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


# --- What is shown ----------------------------------------------------------------------------------------
def test_folders_are_listed_by_name_and_files_are_counted(disk: Path) -> None:
    tree(make(disk, "photos/2024", "Music", "archive"), {"a.jpg": b"1", "b.jpg": b"2"})
    picker = picking.read(None)
    assert (picker.path, picker.shown_path) == (os.fsencode(disk), str(disk))
    assert [folder.name for folder in picker.folders] == ["archive", "Music", "photos"]
    assert (picker.folder_count, picker.file_count, picker.problem, picker.refusal) == (3, 2, "", "")
    assert picker.can_add
    inner = picking.read(os.fsencode(disk / "photos"))
    assert [crumb.label for crumb in inner.crumbs] == [str(disk), "photos"]
    assert [folder.key for folder in inner.folders] == [key(disk / "photos" / "2024")]


def test_several_roots_are_offered_first(disk: Path, settings: Settings, tmp_path: Path) -> None:
    make(tmp_path, "other/inside")
    settings.LIBRARIES_ROOTS = [disk, tmp_path / "other"]
    picker = picking.read(None)
    assert (picker.path, [folder.name for folder in picker.folders]) == (None, [str(disk), str(tmp_path / "other")])
    opened = picking.read(picking.parse(picker.folders[1].key))
    assert [folder.name for folder in opened.folders] == ["inside"]
    assert (opened.crumbs[0].label, opened.crumbs[0].key) == ("All roots", "")


def test_what_can_not_be_added_is_marked(disk: Path, settings: Settings, tmp_path: Path) -> None:
    settings.LIBRARIES_ROOTS = [tmp_path]
    make(tmp_path, "disk/taken/deep", "disk/@eaDir", "disk/.dedupfs-trash", "free")
    factories.library("Photos", str(disk / "taken"))
    top, inner = picking.read(None), picking.read(os.fsencode(disk))
    notes = {folder.name: (folder.note, folder.can_open) for folder in (*top.folders, *inner.folders)}
    assert notes == {
        "disk": ("holds the library “Photos”", True),
        "free": ("", True),
        "own": ("DedupFS's own folder", False),
        "taken": ("is the library “Photos”", False),
        "@eaDir": ("left out of libraries", False),
        ".dedupfs-trash": ("DedupFS's trash", False),
    }
    assert "holds files of DedupFS itself" in top.refusal
    assert "holds the library “Photos”" in inner.refusal
    assert "belongs to the library “Photos”" in picking.read(os.fsencode(disk / "taken" / "deep")).refusal
    assert picking.read(os.fsencode(tmp_path / "own" / "thumbs")).problem == "This is DedupFS's own folder."


def test_the_first_folders_are_shown_and_that_there_are_more_is_said(
    disk: Path, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(disk, *(f"{number:03}" for number in range(230)))
    picker = picking.read(None)
    assert len(picker.folders) == browsing.MOST_FOLDERS == 200
    assert (picker.folders[0].name, picker.folders[-1].name, picker.more_folders) == ("000", "199", 30)
    assert "The first 200 of 230 folders. For another, type its path." in words_of(text_of(admin, ADDRESS))
    monkeypatch.setattr(browsing, "MOST_ENTRIES", 50)
    _, inside = browsing.folders_in(os.fsencode(disk), os.fsencode(disk))
    assert (len(inside.folders), inside.is_whole) == (50, False)


@pytest.mark.parametrize(
    "name", [b"caf\xe9", "Grüße".encode(), b"a\nb", b" both ends ", b"<b>&\"'", b"\xff\xfe", b"%2e%2e"]
)
def test_any_name_is_shown_and_added_without_loss(disk: Path, admin: Client, name: bytes) -> None:
    path = os.fsencode(disk) + b"/" + name
    os.makedirs(path + b"/inner")
    html = text_of(admin, ADDRESS)
    assert f"?folder={path.hex()}" in html
    assert "inner" in text_of(admin, f"{ADDRESS}?folder={path.hex()}")
    form = text_of(admin, f"/libraries/add/picked/?folder={path.hex()}")
    assert f'<input type="hidden" name="folder" value="{path.hex()}">' in form
    sent = {"folder": path.hex(), "name": "n", "role": "normal", "schedule": "none"}
    assert admin.post("/libraries/add/", sent).status_code == 302
    assert LibraryRoot.objects.get().root_path == to_text(path)


def test_a_name_is_suggested_that_no_library_has(disk: Path) -> None:
    path = os.fsencode(disk / "nas" / "photos")
    assert picking.suggest_name(path) == "photos"
    factories.library("photos")
    assert picking.suggest_name(path) == "photos (nas)"
    factories.library("photos (nas)", "/elsewhere")
    assert picking.suggest_name(path) == "photos 2"
    assert picking.suggest_name(b"/") == "Files"
    assert picking.suggest_name(b"/x/caf\xe9") == "caf\\xe9"


# --- Nothing leads out ------------------------------------------------------------------------------------
HOSTILE = [
    "{root}/..", "{root}/../outside", "{root}/a/../../outside", "{root}/./a", "{root}//a", "{root}/a/", "/", "", "/etc",
    "{root}x", "outside", "{root}/a\0", "\0", "{root}/a\0/../../outside", "{root}/..\0", "../outside", "{root}/a/..",
]  # fmt: skip


@pytest.mark.parametrize("sent", HOSTILE)
def test_what_is_sent_never_leads_out(disk: Path, admin: Client, tmp_path: Path, sent: str) -> None:
    make(tmp_path, "disk/a", "outside/secret", "diskx/secret")
    path = sent.replace("{root}", str(disk)).encode()
    if path:
        with pytest.raises(picking.NoSuchFolder):
            picking.parse(path.hex())
        assert admin.get(ADDRESS, {"folder": path.hex()}).status_code == 404
        assert admin.get("/libraries/add/picked/", {"folder": path.hex()}).status_code == 404
        assert admin.get("/first-steps/", {"folder": path.hex()}).status_code == 404
    # Also where it is asked past the address.
    with pytest.raises(ValueError, match="below"):
        browsing.folders_in(os.fsencode(disk), path)
    answer = asking.ask({0: Question(path, below=os.fsencode(disk))})[0]
    assert answer is not None
    assert answer.problem
    assert answer.inside is None


@pytest.mark.parametrize(
    "sent", ["..", "/etc", "2f65746", "2F657463", "zz", "%2fetc", "0x2f", "2f 65", "2f" * 5_000, "é", "\x00"]
)
def test_what_is_no_key_is_no_page(disk: Path, admin: Client, sent: str) -> None:
    assert admin.get(ADDRESS, {"folder": sent}).status_code == 404


@pytest.mark.parametrize("target", ["folder outside", "loop", "nothing", "inside"])
def test_links_are_neither_shown_nor_followed(disk: Path, tmp_path: Path, target: str) -> None:
    make(tmp_path, "outside/secret", "disk/real/inner")
    leads = {
        "folder outside": tmp_path / "outside",
        "loop": disk / "link",
        "nothing": disk / "x",
        "inside": disk / "real",
    }
    (disk / "link").symlink_to(leads[target])
    assert listed(disk) == ["real"]
    for path in (disk / "link", disk / "link" / "secret", disk / "link" / "inner"):
        picker = picking.read(os.fsencode(path))
        assert (picker.folders, picker.can_add, picker.suggested_name != "") == ([], False, True)
        assert "can't be read: Not a directory" in picker.problem


def test_a_root_that_is_a_link_is_followed(disk: Path, settings: Settings, tmp_path: Path) -> None:
    make(disk, "a/b")
    (tmp_path / "root").symlink_to(disk)
    settings.LIBRARIES_ROOTS = [tmp_path / "root"]
    factories.library("A", str(disk / "a" / "b"))
    assert listed(tmp_path / "root") == ["a"]
    picker = picking.read(os.fsencode(tmp_path / "root" / "a"))
    assert [folder.note for folder in picker.folders] == ["is the library “A”"]


def test_a_link_swapped_in_for_a_folder_never_leads_out(disk: Path, tmp_path: Path) -> None:
    """Somebody changes a folder into a link and back as fast as they can; what is listed is never what is outside."""
    make(tmp_path, "outside/secret", "disk/a/mine", "aside")
    (disk / "link").symlink_to(tmp_path / "outside")
    over = Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(disk / "a", disk / "kept")
            os.rename(disk / "link", disk / "a")
            os.rename(disk / "a", disk / "link")
            os.rename(disk / "kept", disk / "a")

    thread = Thread(target=swap)
    seen: Counter[str] = Counter()
    refusals = {"NotADirectoryError", "FileNotFoundError"}

    def look() -> bool:
        """Many times, and until the folder was met as well as the swap."""
        for _ in range(100):
            try:
                _, inside = browsing.folders_in(os.fsencode(disk), os.fsencode(disk / "a"))
                seen[",".join(map(os.fsdecode, inside.folders))] += 1
            except OSError as error:
                seen[type(error).__name__] += 1
        return seen.total() >= 3_000 and "mine" in seen and bool(refusals & seen.keys())

    thread.start()
    try:
        until(look, "the folder and the swap to be met")
    finally:
        over.set()
        thread.join()
    assert seen.keys() <= {"mine", *refusals}


@pytest.mark.parametrize(
    ("name", "words"), [("file", "Not a directory"), ("pipe", "Not a directory"), ("gone", "No such file")]
)
def test_what_is_no_folder_is_said(disk: Path, admin: Client, name: str, words: str) -> None:
    (disk / "file").write_bytes(b"1")
    os.mkfifo(disk / "pipe")
    html = text_of(admin, f"{ADDRESS}?folder={key(disk / name)}")
    assert words in words_of(html)
    assert "Use this folder" not in html


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_said(disk: Path) -> None:
    (disk / "locked").mkdir(mode=0)
    assert "Permission denied" in picking.read(os.fsencode(disk / "locked")).problem


def test_a_path_too_long_for_an_address_is_not_opened(disk: Path) -> None:
    place = disk
    while len(os.fsencode(place)) + 201 <= picking.MOST_BYTES:
        place /= "d" * 200
    (place / ("e" * 250)).mkdir(parents=True)
    [folder] = picking.read(os.fsencode(place)).folders
    assert (folder.note, folder.can_open) == ("too deep to be shown here: type its path", False)
    with pytest.raises(picking.NoSuchFolder):
        picking.parse(folder.key)


# --- A disk that does not answer --------------------------------------------------------------------------
def test_a_dead_disk_holds_up_neither_its_neighbours_nor_the_page(
    disk: Path, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(disk, "alive/inner")
    with dead_disk(disk / "share"):
        assert listed(disk) == ["alive", "share"]
        assert listed(disk / "alive") == ["inner"]
        monkeypatch.setattr(asking, "ANSWER_SECONDS", 1.0)
        began = time.monotonic()
        words = words_of(text_of(admin, f"{ADDRESS}?folder={key(disk / 'share')}"))
        assert "It does not answer" in words
        assert time.monotonic() - began < 10


# --- Who, and what it costs -------------------------------------------------------------------------------
@pytest.mark.parametrize("address", [ADDRESS, "/libraries/add/picked/"])
def test_folders_are_shown_to_admins_only(disk: Path, address: str) -> None:
    make(disk, "secret")
    for role in (Role.VIEWER, Role.OPERATOR):
        answer = logged_in(role).get(address, {"folder": key(disk)})
        assert (answer.status_code, b"secret" in answer.content) == (403, False)


def test_the_page_costs_the_same_however_many_folders_and_libraries(disk: Path, admin: Client) -> None:
    def cost() -> int:
        counter = QueryCounter()
        with connection.execute_wrapper(counter):
            text_of(admin, ADDRESS)
        return counter.count

    make(disk, "a")
    before = cost()
    make(disk, *map(str, range(100)))
    for number in range(20):
        factories.library(f"{number}", str(disk / str(number)))
    assert cost() == before <= 6


def test_the_form_gets_the_picker_without_a_frame(disk: Path, admin: Client) -> None:
    make(disk, "photos")
    html = text_of(admin, ADDRESS, **HTMX)
    assert "<html" not in html
    assert f'hx-get="/libraries/pick/?folder={key(disk / "photos")}"' in html
    page = text_of(admin, ADDRESS)
    assert 'hx-get="/libraries/pick/' not in page
    assert "Browse…" in text_of(admin, "/libraries/add/")


def test_without_a_root_of_their_own_people_are_told_how_to_set_one(
    admin: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.STATE_ROOT = tmp_path
    settings.LIBRARIES_ROOTS = [make(tmp_path, "libraries") / "libraries"]
    assert "DEDUPFS_LIBRARIES_ROOT=/srv/files" in words_of(text_of(admin, ADDRESS))
    settings.LIBRARIES_ROOTS = [make(tmp_path, "libraries/x") / "libraries" / "x"]
    assert "DEDUPFS_LIBRARIES_ROOT" not in text_of(admin, ADDRESS)


# --- The add form -----------------------------------------------------------------------------------------
def sent(**more: Any) -> dict[str, Any]:
    return {"name": "photos", "role": "normal", "schedule": "none", **more}


def test_the_picked_folder_stays_when_the_form_comes_back(disk: Path, admin: Client) -> None:
    make(disk, "photos")
    picked = key(disk / "photos")
    html = admin.post("/libraries/add/", sent(folder=picked, name="")).content.decode()
    assert (f'name="folder" value="{picked}"' in html, str(disk / "photos") in html) == (True, True)
    factories.library("Other", str(disk / "photos"))
    html = admin.post("/libraries/add/", sent(folder=picked)).content.decode()
    assert "is already the library “Other”" in words_of(html)
    assert LibraryRoot.objects.count() == 1


@pytest.mark.parametrize("folder", [b"/etc".hex(), "zz", b"/etc/../etc".hex()])
def test_a_made_up_folder_asks_for_a_path(disk: Path, admin: Client, folder: str) -> None:
    html = admin.post("/libraries/add/", sent(folder=folder)).content.decode()
    assert 'id="id_path"' in html
    assert "This field is required" in words_of(html)
    assert not LibraryRoot.objects.exists()


def test_a_link_swapped_in_after_picking_is_refused_when_it_is_added(disk: Path, admin: Client, tmp_path: Path) -> None:
    make(tmp_path, "outside")
    (disk / "photos").symlink_to(tmp_path / "outside")
    html = admin.post("/libraries/add/", sent(folder=key(disk / "photos"))).content.decode()
    assert "is not below" in words_of(html)
    assert not LibraryRoot.objects.exists()
