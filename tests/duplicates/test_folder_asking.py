"""Folders that lose files are asked whether they let them go: on real disks, since only those can refuse."""

from __future__ import annotations

import os
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from accounts.models import Role
from duplicates import folder_asking, plan_changing
from duplicates.models import Plan, PlanFolder
from duplicates.plan_words import described
from libraries import asking
from libraries.models import LibraryRoot
from libraries.names import to_text
from tests import factories
from tests.duplicates.plans import copies, library, planned, rule_set, warning
from tests.libraries.dead_disk import dead_disk
from tests.trash.disks import loop_disk

pytestmark = pytest.mark.django_db
CODE = "folders_not_writable"
TWO = {"": "uuid-1", "card": "uuid-2"}


def photos_at(root: Path, **state: Any) -> LibraryRoot:
    """A library whose root can be written to."""
    root.mkdir(parents=True, exist_ok=True)
    made = library(**state)
    LibraryRoot.objects.filter(pk=made.pk).update(root_path=str(root))
    return made


def copies_at(root: Path, where: LibraryRoot, content: int, *paths: str, size: int = 1_000) -> None:
    """On the disk and in the index; only folders matter on the disk."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
    copies(where, content, *paths, size=size)


def words(plan: Plan, code: str) -> str:
    found = described(warning(plan, code))
    assert found is not None
    return " ".join([found.title, found.text, *found.examples])


@pytest.fixture
def as_no_superuser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who asks be bound by the modes of folders, as everybody but root is."""
    if os.getuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("setpriv is not installed")
        bound = [setpriv, "--bounding-set=-dac_override,-dac_read_search"]
        monkeypatch.setattr(asking, "COMMAND", [*bound, *asking.COMMAND])


# --- What refuses -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("filesystems", [TWO, {"": "uuid-1"}])
def test_a_read_only_disk_inside_a_writable_library_is_warned_of(tmp_path: Path, filesystems: dict[str, str]) -> None:
    photos = photos_at(tmp_path / "photos", filesystems=filesystems)
    with loop_disk(tmp_path / "photos/card", image=tmp_path / "card.img") as disk:
        copies_at(tmp_path / "photos", photos, 1, "a", "card/dcim/a", "card/dcim/b", "old/a")
        disk.make_read_only()
        plan = planned()
        disk.make_writable()
    assert warning(plan, CODE) == {
        "code": CODE,
        "count": 1,
        "files": 2,
        "unknown": 0,
        "examples": [{"library": "photos", "path": "card/dcim"}],
    }
    assert "1 folder can't be written to" in words(plan, CODE)
    assert "2 files of this plan lie there" in words(plan, CODE)
    assert "photos: card/dcim" in words(plan, CODE)


@pytest.mark.usefixtures("as_no_superuser")
@pytest.mark.parametrize("mode", [0o555, 0o600, 0o666])
def test_a_folder_without_the_right_to_write_or_enter_is_warned_of(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "photos"
    photos = photos_at(root)
    copies_at(root, photos, 1, "a", "old/a", "shut/a")
    copies_at(root, photos, 2, "b", "shut/deep/b")
    (root / "shut").chmod(mode)
    found = warning(planned(), CODE)
    (root / "shut").chmod(0o755)
    assert found is not None
    # What lies below one that can't be entered can't be reached, however it is itself.
    inside = [] if mode == 0o555 else ["shut/deep"]
    assert [each["path"] for each in found["examples"]] == ["shut", *inside]
    assert found["files"] == found["count"] == 1 + len(inside)


@pytest.mark.usefixtures("as_no_superuser")
def test_folders_that_let_files_go_or_are_gone_are_not_warned_of(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    photos = photos_at(root)
    copies_at(root, photos, 1, "a", "old/a", to_text(b"caf\xe9/\xff/a"))
    copies(photos, 2, "b", "gone/b")
    (root / "outside").mkdir(mode=0o555)
    (root / "link").symlink_to(root / "outside")
    copies(photos, 3, "c", "link/c")
    plan = planned()
    assert warning(plan, CODE) is None
    assert warning(plan, "folders_silent") is None


@pytest.mark.parametrize("state", [{"is_writable": False}, {"mount": "absent"}, {"mount": "different"}])
def test_a_library_of_which_it_is_known_is_not_asked(
    tmp_path: Path, state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = photos_at(tmp_path / "photos", **state)
    copies_at(tmp_path / "photos", photos, 1, "a", "old/a")
    monkeypatch.setattr(asking, "_start", None)
    assert warning(planned(), CODE) is None


# --- How much is asked ------------------------------------------------------------------------------------
@pytest.mark.usefixtures("as_no_superuser")
def test_of_each_filesystem_the_folders_that_lose_most_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_asking, "MOST_FOLDERS", 1)
    root = tmp_path / "photos"
    photos = photos_at(root, filesystems=TWO)
    for number, folder in enumerate(["small", "large", "card/small", "card/large"]):
        copies_at(root, photos, number, f"{number}", f"{folder}/a", size=9_000 if "large" in folder else 10)
        (root / folder).chmod(0o555)
    plan = planned()
    found = warning(plan, CODE)
    assert found is not None
    assert (found["count"], found["unknown"]) == (2, 2)
    assert [each["path"] for each in found["examples"]] == ["card/large", "large"]
    assert "Of 2 other folders it is not known" in words(plan, CODE)


def test_a_dead_disk_inside_a_library_does_not_hang_the_planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 5.0)  # in which the others answer on a busy machine, too
    root = tmp_path / "photos"
    photos = photos_at(root, filesystems={"": "uuid-1", "share": "dead"})
    with loop_disk(root / "card", image=tmp_path / "card.img") as card, dead_disk(root / "share"):
        copies_at(root, photos, 1, "a", "card/in/a")
        copies(photos, 2, "b", "share/b", "share/c")
        card.make_read_only()
        plan = planned()
        card.make_writable()
    assert warning(plan, "folders_silent") == {
        "code": "folders_silent",
        "count": 1,
        "examples": [{"library": "photos", "path": "share"}],
    }
    assert "1 folder did not answer" in words(plan, "folders_silent")
    found = warning(plan, CODE)
    assert found is not None, "the others are asked all the same"
    assert (found["count"], found["unknown"]) == (1, 1)


# --- Afterwards -------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("as_no_superuser")
def test_a_changed_plan_warns_of_what_still_goes_and_asks_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "photos"
    photos = photos_at(root)
    copies_at(root, photos, 1, "a", "shut/a")
    copies_at(root, photos, 2, "b", "open/b")
    (root / "shut").chmod(0o555)
    plan = planned()
    before = warning(plan, CODE)
    assert before is not None
    assert dict(PlanFolder.objects.filter(plan=plan).values_list("folder", "is_writable")) == {
        "shut": False,
        "open": True,
    }
    monkeypatch.setattr(asking, "_start", None)
    folder = PlanFolder.objects.get(plan=plan, folder="shut").pk
    plan_changing.take_folder_out(plan.pk, folder, actor="otto")
    assert warning(plan, CODE) is None
    plan_changing.put_folder_back(plan.pk, folder, actor="otto")
    assert warning(plan, CODE) == before


@pytest.mark.usefixtures("as_no_superuser")
def test_page_api_and_command_say_it(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    photos = photos_at(root)
    copies_at(root, photos, 1, "a", "shut/a")
    (root / "shut").chmod(0o555)
    rule_set()
    out = StringIO()
    call_command("plan", "--rules", "tidy", stdout=out)
    plan = Plan.objects.get()
    browser = Client()
    browser.force_login(factories.user(role=Role.VIEWER))
    assert "! 1 folder can't be written to" in out.getvalue()
    assert "photos: shut" in out.getvalue()
    page = browser.get(f"/plans/{plan.pk}/").content.decode()
    assert "1 folder can&#x27;t be written to" in page
    told = browser.get(f"/api/v1/plans/{plan.pk}").json()["warnings"]
    assert ["1 folder can't be written to" in each["words"] for each in told if each["code"] == CODE] == [True]
