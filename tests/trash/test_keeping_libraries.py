"""A library stays while files of it are acted on, whoever asks and by whichever door."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Role
from jobs.models import Job
from libraries import removing
from libraries.models import LibraryRoot
from tests.pages import logged_in, with_token
from tests.trash.acts import acted, authorised, carry_out, due, library
from trash import acting_on_file, authorising
from trash.authorising import ask_undo, authorise_emptying
from trash.models import Act, TrashItem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch


@pytest.fixture
def admin() -> Client:
    return with_token(Role.ADMIN)


def ask(admin: Client, where: LibraryRoot, **wish: str) -> tuple[int, str]:
    """What the API answers to whoever wants the library removed."""
    answer = admin.delete(f"/api/v1/libraries/{where.pk}", query_params=wish)
    return answer.status_code, answer.content.decode()


def is_kept(where: LibraryRoot) -> bool:
    return LibraryRoot.objects.kept().filter(pk=where.pk).exists()


def refuses(admin: Client, where: LibraryRoot, act: Act, **wish: str) -> None:
    code, words = ask(admin, where, **wish)
    assert code == 409
    assert f"{act.verb.capitalize()} {act.pk}, asked for by {act.authorised_by}, has files of this library" in words
    assert "Stop it or wait for its end" in words
    assert is_kept(where)


def test_it_is_refused_from_the_approval_to_the_end(tmp_path: Path, admin: Client, monkeypatch: Patch) -> None:
    photos = library(tmp_path / "photos")
    act = authorised()
    refuses(admin, photos, act)
    authorising.pause(act.pk, actor="ada")
    refuses(admin, photos, act)
    authorising.resume(act.pk, actor="ada")
    due(act)
    monkeypatch.setattr(acting_on_file, "reach", lambda _: refuses(admin, photos, act))
    assert carry_out(act).done_count == 2
    code, words = ask(admin, photos)
    assert (code, "Empty it or undo first" in words) == (409, True)


def test_what_was_stopped_before_it_began_holds_nobody_back(tmp_path: Path, admin: Client) -> None:
    photos = library(tmp_path / "photos")
    act = authorised()
    refuses(admin, photos, act, even_if_unseen="true")
    authorising.stop(act.pk, actor="ada")
    assert ask(admin, photos)[0] == 202
    assert not is_kept(photos)


def test_the_page_says_what_to_do(tmp_path: Path) -> None:
    photos = library(tmp_path / "photos")
    authorised()
    answer = logged_in(Role.ADMIN).post(reverse("libraries:remove", args=[photos.pk]), {"even_if_unseen": "on"})
    assert "Stop it or wait for its end" in answer.content.decode()
    assert is_kept(photos)


def test_the_library_of_the_file_that_stays_is_kept_and_others_may_go(tmp_path: Path, admin: Client) -> None:
    keeps = library(tmp_path / "a", {"x": b"one"}, name="keeps")
    goes = library(tmp_path / "b", {"deep/x": b"one"}, name="goes")
    other = library(tmp_path / "c", {"y": b"other"}, name="other")
    act = authorised()
    refuses(admin, keeps, act)
    refuses(admin, goes, act)
    assert ask(admin, other)[0] == 202


def test_undo_and_emptying_keep_it_too(tmp_path: Path, admin: Client) -> None:
    photos = library(tmp_path / "photos")
    acted()
    undo = ask_undo({"all": True}, actor="otto")
    refuses(admin, photos, undo)
    authorising.stop(undo.pk, actor="otto")
    emptying = authorise_emptying({"all": True}, 2, actor="ada")
    refuses(admin, photos, emptying)
    due(emptying)
    assert carry_out(emptying).done_count == 2
    assert ask(admin, photos)[0] == 202


@pytest.mark.parametrize("is_over", [False, True])
def test_what_is_authorised_while_the_trash_is_looked_at_is_noticed(
    tmp_path: Path, admin: Client, monkeypatch: Patch, is_over: bool
) -> None:
    photos = library(tmp_path / "photos")
    look = removing._refuse_trash

    def look_slowly(where: LibraryRoot, **wish: Any) -> None:
        look(where, **wish)
        act = authorised()
        if is_over:
            carry_out(act)

    monkeypatch.setattr(removing, "_refuse_trash", look_slowly)
    code, words = ask(admin, photos)
    assert code == 409
    assert ("Try again" if is_over else "Stop it or wait for its end") in words
    assert is_kept(photos)
    assert TrashItem.objects.filter(status="trashed").count() == (2 if is_over else 0)


def test_a_stopped_act_on_a_disk_that_is_gone_does_not_keep_its_library_for_ever(
    tmp_path: Path, admin: Client, monkeypatch: Patch
) -> None:
    photos = library(tmp_path / "photos")
    act = authorised()
    disk, away = tmp_path / "photos", tmp_path / "away"
    monkeypatch.setattr("trash.heeding.EVERY_SECONDS", 0)

    def die(_point: str) -> None:
        os.rename(disk, away)
        authorising.stop(act.pk, actor="ada")

    monkeypatch.setattr(acting_on_file, "reach", die)
    assert carry_out(act).status == "running", "nobody can say what became of its files"
    assert Job.objects.get(pk=act.job_id).status == "cancelled"
    refuses(admin, photos, act)
    assert ask(admin, photos, even_if_unseen="true")[0] == 202
