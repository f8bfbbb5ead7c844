"""The panel on a plan's page and the page of an act: who sees and may do what, how it follows, what came of it."""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django.fixtures import Settings

from accounts.models import Role
from duplicates import plan_changing
from duplicates.models import Plan
from jobs.models import Job
from libraries.names import to_text
from tests import factories
from tests.duplicates.plans import copies, item, library, planned
from tests.pages import HTMX, QueryCounter, logged_in, text_of, words_of
from tests.trash.doors import allow, authorised, begun, ended, two_copies
from trash import authorising
from trash.models import Act, TrashItem
from trash.panel import panel_of

pytestmark = pytest.mark.django_db
HOSTILE = to_text(b"old/caf\xe9 <script>alert(1)</script>\n.jpg")


@pytest.fixture
def admin() -> Client:
    return logged_in(Role.ADMIN)


def page_of(plan: Plan | None) -> str:
    assert plan is not None
    return f"/plans/{plan.pk}/"


def panel(html: str) -> str:
    """What stands between the totals and the rest of a plan's page."""
    return html.split('id="act"')[1].split("</section>")[0]


def seen_in(html: str) -> str:
    found = re.search(r'name="seen" value="([^"]+)"', html)
    assert found is not None
    return unescape(found[1])


# --- Before -----------------------------------------------------------------------------------------------
def test_where_acting_is_switched_off_the_panel_says_so(admin: Client, operator: Client) -> None:
    plan = two_copies()
    shown = panel(text_of(admin, page_of(plan)))
    assert "switched off" in shown
    assert 'href="/settings/"' in shown
    assert "<form" not in shown
    told = panel(text_of(operator, page_of(plan)))
    assert "switched off" in told
    assert "/settings/" not in told


def test_only_an_admin_sees_the_form(admin: Client, operator: Client, viewer: Client) -> None:
    allow()
    plan = two_copies()
    shown = panel(text_of(admin, page_of(plan)))
    assert "Move 2 files to trash" in shown
    assert f'action="/acts/plans/{plan.pk}/authorise/"' in shown
    for other in (operator, viewer):
        told = panel(text_of(other, page_of(plan)))
        assert "An admin can authorise this plan" in told
        assert "<form" not in told


@pytest.mark.parametrize(("action", "button"), [
    ("hardlink", "Replace 2 files by hard links"),
    ("delete", "Delete 2 files for good"),
])  # fmt: skip
def test_the_button_says_what_is_done(admin: Client, settings: Settings, action: str, button: str) -> None:
    settings.ALLOW_REAL_DELETE = True
    allow(removing=True)
    shown = panel(text_of(admin, page_of(two_copies(action))))
    assert button in shown
    assert ("no way back" in shown) is (action == "delete")


def test_an_admin_authorises_by_the_number(admin: Client) -> None:
    allow()
    plan = two_copies()
    html = text_of(admin, page_of(plan))
    address = f"/acts/plans/{plan.pk}/authorise/"
    refused = admin.post(address, {"files": "3", "seen": seen_in(html)}, follow=True)
    assert "it has 2 files to act on" in refused.content.decode()
    assert not Act.objects.exists()
    answer = admin.post(address, {"files": "2", "seen": seen_in(html)})
    assert (answer.status_code, answer["Location"]) == (302, page_of(plan))
    assert Act.objects.get().authorised_by == "admin"


def test_a_plan_that_changed_behind_the_open_page_is_refused(admin: Client) -> None:
    allow()
    plan = two_copies()
    html = text_of(admin, page_of(plan))
    plan_changing.swap_keeper(plan.pk, item(plan, "old/a").pk, actor="otto")
    answer = admin.post(f"/acts/plans/{plan.pk}/authorise/", {"files": "2", "seen": seen_in(html)}, follow=True)
    assert "was changed since you opened it" in answer.content.decode()
    assert not Act.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_nobody_else_authorises_stops_or_pauses(role: Role) -> None:
    act = authorised()
    other = two_copies(content=2)
    client = logged_in(role)
    assert client.post(f"/acts/plans/{other.pk}/authorise/", {"files": "2"}).status_code == 403
    for verb in ("stop", "pause", "resume"):
        assert client.post(f"/acts/{act.pk}/{verb}/").status_code == 403
    assert Act.objects.get().status == "authorised"
    assert client.get(f"/acts/{act.pk}/").status_code == 200


def test_a_stranger_is_sent_to_the_login(client: Client) -> None:
    act = authorised()
    for answer in (client.get(f"/acts/{act.pk}/"), client.post(f"/acts/{act.pk}/stop/")):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/account/login/")
    assert Act.objects.get().status == "authorised"


# --- In the time to think ---------------------------------------------------------------------------------
def test_the_grace_says_until_when_and_has_a_form_that_stops(admin: Client, viewer: Client) -> None:
    act = authorised()
    html = text_of(admin, page_of(act.plan))
    shown = panel(html)
    assert "data-countdown=" in shown
    assert f'nothing is done before <time datetime="{act.starts_at.isoformat()}' in shown
    assert f'action="/acts/{act.pk}/stop/"' in html
    assert "Discard" not in html
    assert "Take out" not in html
    assert f"/acts/{act.pk}/stop/" not in text_of(viewer, page_of(act.plan))
    admin.post(f"/acts/{act.pk}/stop/")
    html = text_of(admin, page_of(act.plan))
    assert "It was stopped" in html
    assert "No file was touched" in html
    assert "Type the number of files" in html


def test_the_panel_asks_by_one_request_until_something_else_is_to_be_seen(admin: Client) -> None:
    act = authorised()
    html = text_of(admin, page_of(act.plan))
    found = re.search(r'hx-get="([^"]*/panel/[^"]*)" hx-trigger="every 2s"', html)
    assert found is not None
    assert html.count("hx-trigger") == 1
    address = unescape(found[1])
    answer = admin.get(address, headers=HTMX)
    assert 'id="act-live"' in answer.content.decode()
    assert "HX-Refresh" not in answer.headers
    begun(act)
    assert admin.get(address, headers=HTMX).headers["HX-Refresh"] == "true"
    assert admin.get(address).status_code == 302  # a person who opens it comes to the act


# --- While it runs ----------------------------------------------------------------------------------------
def test_progress_is_in_bytes_with_rate_and_time_left(viewer: Client) -> None:
    act = begun(authorised(), done=1)
    words = words_of(panel(text_of(viewer, page_of(act.plan))))
    for part in ("50 %", "1 of 2", "2.0 kB of 4.0 kB", "1.0 kB", "about 2 s left", "The plan is being carried out"):
        assert part in words, part


def test_an_act_of_empty_files_goes_by_their_number() -> None:
    act = begun(authorised(), done=1)
    Act.objects.filter(pk=act.pk).update(total_bytes=0, bytes_done=0)
    words = words_of(panel(text_of(logged_in(Role.VIEWER), page_of(act.plan))))
    assert "50 %" in words
    assert "left" not in words


def test_pause_go_on_and_cancel(admin: Client) -> None:
    act = begun(authorised(), done=1)
    page = page_of(act.plan)
    html = text_of(admin, page)
    assert f"/acts/{act.pk}/pause/" in html
    admin.post(f"/acts/{act.pk}/pause/")
    assert "Pausing: the files in hand are finished first" in text_of(admin, page)
    Job.objects.filter(pk=act.job_id).update(status="retryable", error_code="PAUSED")
    html = text_of(admin, page)
    assert "Paused" in panel(html)
    assert f"/acts/{act.pk}/resume/" in html
    assert f"/acts/{act.pk}/pause/" not in html
    admin.post(f"/acts/{act.pk}/resume/")
    assert "Interrupted: it goes on by itself" in text_of(admin, page)
    admin.post(f"/acts/{act.pk}/stop/")
    html = text_of(admin, page)
    assert "Stopped: what was in hand is being settled" in html
    assert f"/acts/{act.pk}/stop/" not in html


def test_a_refresh_costs_the_same_however_many_files_there_are(admin: Client) -> None:
    act = begun(authorised(), done=1)
    html = text_of(admin, page_of(act.plan))
    found = re.search(r'hx-get="([^"]*/panel/[^"]*)"', html)
    assert found is not None
    counter = QueryCounter()
    with connection.execute_wrapper(counter):
        admin.get(unescape(found[1]), headers=HTMX)
    assert counter.count <= 6


# --- What came of it --------------------------------------------------------------------------------------
def test_the_result_says_what_was_done_skipped_and_where_things_are(viewer: Client, operator: Client) -> None:
    act = ended(authorised(), skipped={"old/a": "VICTIM_CHANGED"}, proof="act-1.jsonl")
    html = text_of(viewer, page_of(act.plan))
    words = words_of(html)
    for part in (
        "The plan was carried out", "1 file moved to trash", "It changed since the plan was made", "VICTIM_CHANGED",
        "/libraries/photos1/.dedupfs-trash", "1 file, 2.0 kB", "2 files were to move to trash", "5" * 64,
    ):  # fmt: skip
        assert part in words, part
    assert "hx-trigger" not in panel(html)
    assert "<form" not in panel(html)
    assert f'action="/acts/plans/{act.plan_id}/undo/"' in text_of(operator, page_of(act.plan))


def test_an_act_that_ends_while_its_page_is_made_is_shown_as_ended() -> None:
    act = authorised()
    assert act.plan is not None
    plan = Plan.objects.get(pk=act.plan.pk)
    ended(act)
    context = panel_of(plan, factories.user())
    assert context["ended"].act == act
    assert (context["living"], context["past"]) == (None, [])


def test_an_operator_asks_for_undo_and_a_viewer_can_not(viewer: Client, operator: Client) -> None:
    act = ended(authorised())
    address = f"/acts/plans/{act.plan_id}/undo/"
    assert viewer.post(address).status_code == 403
    operator.post(address)
    undo = Act.objects.get(verb="undo")
    assert (undo.authorised_by, undo.plan_id) == ("operator", act.plan_id)
    html = text_of(viewer, page_of(act.plan))
    assert "Undo waits for a consumer" in html
    answer = operator.post(f"/acts/plans/{act.plan_id + 99}/undo/")  # type: ignore[operator]
    assert answer.status_code == 404


def test_undo_that_skipped_some_says_which(viewer: Client) -> None:
    act = ended(authorised())
    undo = authorising.ask_undo({"plan": act.plan_id}, actor="otto")
    one, two = TrashItem.objects.filter(act=act).order_by("pk")
    TrashItem.objects.filter(pk__in=[one.pk, two.pk]).update(status="undoing", left_by=undo)
    TrashItem.objects.filter(pk=one.pk).update(status="undone")
    TrashItem.objects.filter(pk=two.pk).update(status="trashed", reason_code="PLACE_TAKEN", reason="taken by x")
    Act.objects.filter(pk=undo.pk).update(status="running")
    Act.objects.filter(pk=undo.pk).update(status="completed", done_count=1, skipped_count=1)
    words = words_of(text_of(viewer, f"/acts/{undo.pk}/"))
    for part in ("Put 2 files back", "1 file is back", "Something else has its old place", "taken by x"):
        assert part in words, part
    html = text_of(viewer, f"/acts/{undo.pk}/?only=skipped")
    assert "old/deep/a" in html
    assert "old/a<" not in html
    assert f"/acts/{undo.pk}/" in text_of(viewer, page_of(act.plan))


def test_each_file_is_listed_by_key_and_by_reason(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trash.act_views.PAGE_ITEMS", 2)
    copies(library(), 1, "a", *(f"old/{number}" for number in range(5)), HOSTILE, size=2_000)
    act = ended(authorised(planned()), skipped={"old/1": "TOO_YOUNG", "old/3": "PROTECTED", HOSTILE: "PROTECTED"})
    address = f"/acts/{act.pk}/"
    seen: list[str] = []
    while address:
        html = text_of(viewer, address, **(HTMX if seen else {}))
        seen += re.findall(r'class="path" title="([^"]+)"', html)
        more = re.search(r'id="load-more-items" href="([^"]+)"', html)
        address = unescape(more[1]) if more else ""
    assert len(seen) == len(set(seen)) == 6
    assert not [path for path in seen if "<script>" in path]
    words = words_of(text_of(viewer, f"/acts/{act.pk}/?reason=PROTECTED"))
    assert "old/3" in words
    assert "caf\\xe9 <script>" in words
    assert "old/1 " not in words
    assert "Nothing was skipped" in text_of(viewer, f"/acts/{act.pk}/?reason=BACKUP")
    for wrong in ("after=x", "reason=<b>", "reason=" + "A" * 65):
        assert viewer.get(f"/acts/{act.pk}/?{wrong}").status_code == 404


def test_a_void_act_says_why(viewer: Client) -> None:
    act = authorised()
    Act.objects.filter(pk=act.pk).update(status="void", note="The database is older than the trash.")
    Plan.objects.filter(status="authorised").update(status="ready")
    assert "Its approval no longer counts" in text_of(viewer, page_of(act.plan))
    assert "older than the trash" in text_of(viewer, f"/acts/{act.pk}/")


# --- The proof --------------------------------------------------------------------------------------------
@pytest.fixture
def proofs(settings: Settings, tmp_path: Path) -> Path:
    settings.STATE_ROOT = tmp_path
    folder = tmp_path / "proofs"
    folder.mkdir()
    (tmp_path / "secret_key").write_text("secret")
    return folder


def test_the_proof_can_be_had(viewer: Client, proofs: Path) -> None:
    (proofs / "act-7.jsonl").write_text('{"done": 1}\n')
    act = ended(authorised(), proof="act-7.jsonl")
    answer: Any = viewer.get(f"/acts/{act.pk}/proof/")
    assert b"".join(answer.streaming_content) == b'{"done": 1}\n'
    assert answer["Content-Disposition"] == f'attachment; filename="act-{act.pk}.jsonl"'
    assert answer["Content-Type"] == "application/x-ndjson"
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["", "../secret_key", "..", "/etc/passwd", ".hidden", "link", "pipe", "folder", "no"])
def test_no_other_file_can_be_had_by_that_door(viewer: Client, proofs: Path, name: str) -> None:
    (proofs / "link").symlink_to("../secret_key")
    os.mkfifo(proofs / "pipe")
    (proofs / "folder").mkdir()
    (proofs / ".hidden").write_text("secret")
    act = ended(authorised(), proof=name)
    assert viewer.get(f"/acts/{act.pk}/proof/").status_code == 404


def test_a_swapped_folder_of_proofs_is_not_followed(viewer: Client, proofs: Path, tmp_path: Path) -> None:
    proofs.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "act-7.jsonl").write_text("secret")
    proofs.symlink_to("elsewhere")
    act = ended(authorised(), proof="act-7.jsonl")
    assert viewer.get(f"/acts/{act.pk}/proof/").status_code == 404
