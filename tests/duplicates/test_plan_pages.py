from __future__ import annotations

import csv
import re
from html import unescape
from io import StringIO
from typing import Any

import pytest
from django.test import Client

from duplicates import plan_changing, planning
from duplicates.models import Plan, PlanFolder
from jobs import deciding
from jobs.executing import drain
from jobs.models import Job
from libraries.models import LibraryRoot
from libraries.names import to_text
from tests.duplicates.plans import SHORTEST, copies, digest, item, library, paths, planned, rule_set
from tests.pages import HTMX, text_of, words_of

pytestmark = pytest.mark.django_db
HOSTILE = to_text(b"caf\xe9 <script>alert(1)</script>\n.jpg")


def waiting() -> Plan:
    return planning.make_plan(actor="otto", action="trash", rules=SHORTEST)


@pytest.fixture
def plan() -> Plan:
    photos = library()
    copies(photos, 1, "a.jpg", "old/a.jpg", "old/deep/a.jpg", size=2_000)
    copies(photos, 2, "b.jpg", "old/b.jpg", size=1_000)
    return planned(rule_set_name="tidy")


# --- The list ---------------------------------------------------------------------------------------------
def test_an_empty_list_says_what_to_do_next(viewer: Client, operator: Client) -> None:
    assert "No plans yet" in text_of(viewer, "/plans/")
    assert "/plans/new/" not in text_of(viewer, "/plans/")
    assert "/plans/new/" in text_of(operator, "/plans/")


def test_the_list_shows_what_each_plan_amounts_to(viewer: Client, plan: Plan) -> None:
    html = text_of(viewer, "/plans/")
    words = words_of(html)
    for part in (f"Plan {plan.pk}", "Ready", "tidy", "All groups", "5.0 kB", "otto", "Move to trash"):
        assert part in words, part
    assert "hx-trigger" not in html.split('id="live"')[1].split(">")[0]


def test_the_list_follows_a_plan_that_is_being_made_and_stops(viewer: Client) -> None:
    waits = waiting()
    assert "every 5s" in text_of(viewer, "/plans/")
    fragment = text_of(viewer, f"/plans/live/?id={waits.pk}&id=nonsense", **HTMX)
    assert "every 5s" in fragment
    assert f'id="plan-{waits.pk}" hx-swap-oob' in fragment
    drain("jobs")
    fragment = text_of(viewer, f"/plans/live/?id={waits.pk}", **HTMX)
    assert "hx-trigger" not in fragment.split("<template>")[0]
    assert "Ready" in fragment


def test_the_list_goes_on_by_key(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplicates.plan_views.PAGE_PLANS", 2)
    made = [waiting().pk for _ in range(5)]
    seen: list[int] = []
    address = "/plans/"
    while address:
        html = text_of(viewer, address)
        seen += [int(key) for key in re.findall(r'<tr id="plan-(\d+)"', html)]
        more = re.search(r'id="load-more" href="([^"]+)"', html)
        address = unescape(more[1]) if more else ""
    assert seen == made[::-1]
    assert viewer.get("/plans/?before=x").status_code == 404


# --- One plan ---------------------------------------------------------------------------------------------
def test_a_plan_reads_like_a_diff(viewer: Client, plan: Plan) -> None:
    html = text_of(viewer, f"/plans/{plan.pk}/")
    words = words_of(html)
    assert "3 files would move to trash" in words
    assert "5.0 kB come back" in words
    assert "2 files stay" in words
    assert html.count("is-kept") == 2
    assert html.count("is-going") == 3
    assert "2 folders would become empty" in words
    assert "No file is touched until an admin authorises it" in words
    assert "<button" not in html.split('id="content"')[1].split("</main>")[0]  # a viewer only reads


def test_hostile_names_are_whole_and_harmless(viewer: Client) -> None:
    copies(library("<b>bold</b>"), 1, "a", f"old/{HOSTILE}")
    plan = planned()
    for address in (f"/plans/{plan.pk}/", f"/plans/{plan.pk}/?by=folder"):
        html = text_of(viewer, address)
        assert "<script>alert" not in html
        assert "<b>bold" not in html
    assert "caf\\xe9 &lt;script&gt;" in text_of(viewer, f"/plans/{plan.pk}/")


def test_pages_of_files_are_cut_between_contents(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplicates.plan_views.PAGE_FILES", 5)
    photos = library()
    for content in range(6):
        copies(photos, content, f"{content}", f"far/{content}", size=100 + content)
    copies(photos, 9, "big", *(f"far/big/{n}" for n in range(8)), size=1_000)
    plan = planned()
    address, seen, pages = f"/plans/{plan.pk}/", [], 0
    while address:
        html = text_of(viewer, address, **(HTMX if pages else {}))
        pages += 1
        seen += re.findall(r'plan-path" title="([^"]+)"', html)
        if pages == 2:
            assert "continued" in html
            assert "It goes for photos: big." in words_of(html)
        more = re.search(r'id="load-more-files" href="([^"]+)"', html)
        address = unescape(more[1]) if more else ""
    assert sorted(seen) == sorted(plan.files.values_list("relative_path", flat=True))
    assert len(seen) == 21
    assert viewer.get(f"/plans/{plan.pk}/?after=x").status_code == 404


def test_by_folder_says_what_each_one_loses(viewer: Client, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    words = words_of(text_of(viewer, f"/plans/{plan.pk}/?by=folder"))
    assert "2 of 2 folders would become empty" in words
    assert "100 %" in words
    assert "2 of 2" in words
    monkeypatch.setattr("duplicates.plan_views.PAGE_FOLDERS", 1)
    html = text_of(viewer, f"/plans/{plan.pk}/?by=folder")
    more = re.search(r'id="load-more-folders" href="([^"]+)"', html)
    assert more is not None
    assert "old/deep" not in words_of(html.split('id="folders-name"')[1])
    html = text_of(viewer, unescape(more[1]), **HTMX)
    assert "old/deep" in words_of(html)
    assert "load-more-folders" not in html


def test_a_plan_in_which_nothing_goes_says_so(viewer: Client) -> None:
    copies(library(), 1, "same/1", "same/2")
    plan = planned()
    assert "1 group matched, and every file of it stays" in words_of(text_of(viewer, f"/plans/{plan.pk}/"))


def test_a_plan_that_is_being_made_asks_again_until_it_is(viewer: Client) -> None:
    waits = waiting()
    html = text_of(viewer, f"/plans/{waits.pk}/")
    assert "It begins as soon as a consumer is free" in html
    assert "every 5s" in html
    assert 'id="plan-making"' in text_of(viewer, f"/plans/{waits.pk}/", **HTMX)
    drain("jobs")
    answer = viewer.get(f"/plans/{waits.pk}/", headers=HTMX)
    assert answer["HX-Refresh"] == "true"
    assert "every 5s" not in text_of(viewer, f"/plans/{waits.pk}/")


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_plan_that_could_not_be_made_says_why_and_can_be_made_anew(operator: Client, end: str) -> None:
    photos = library()
    copies(photos, 1, "a", "old/a")
    waits = planning.make_plan(actor="otto", action="trash", rules=SHORTEST, filter=f"library={photos.pk}")
    if end == "failed":
        Plan.objects.filter(pk=waits.pk).update(filter="library=12345")
        drain("jobs")
    else:
        deciding.cancel(Job.objects.get().pk, actor="otto")
    words = words_of(text_of(operator, f"/plans/{waits.pk}/"))
    assert ("could not be made" in words) == (end == "failed")
    assert ("not there any more" in words) == (end == "failed")
    assert ("Planning was cancelled" in words) == (end == "cancelled")
    assert "every" not in text_of(operator, "/plans/").split('id="live"')[1].split(">")[0]
    Plan.objects.filter(pk=waits.pk).update(filter=f"library={photos.pk}")
    answer = operator.post(f"/plans/{waits.pk}/again/", follow=True)
    anew = Plan.objects.latest("pk")
    assert answer.redirect_chain == [(f"/plans/{anew.pk}/", 302)]
    assert anew.pk != waits.pk
    drain("jobs")
    assert paths(anew, "remove") == ["old/a"]


# --- Changing ---------------------------------------------------------------------------------------------
def test_an_operator_takes_out_puts_back_and_swaps(operator: Client, plan: Plan) -> None:
    row = item(plan, "old/b.jpg")
    html = text_of(operator, f"/plans/{plan.pk}/")
    assert f'action="/plans/{plan.pk}/files/{row.pk}/take-out/"' in html
    answer = operator.post(f"/plans/{plan.pk}/files/{row.pk}/take-out/", {"after": "7", "anchor": "c00"})
    assert answer["Location"] == f"/plans/{plan.pk}/?after=7#c00"
    html = text_of(operator, f"/plans/{plan.pk}/")
    assert html.count("is-out") == 1
    assert "2 files would move to trash" in html
    operator.post(f"/plans/{plan.pk}/files/{row.pk}/put-back/")
    operator.post(f"/plans/{plan.pk}/files/{row.pk}/keep/")
    assert paths(plan, "keep") == ["a.jpg", "old/b.jpg"]
    folder = PlanFolder.objects.get(plan=plan, folder="old/deep")
    answer = operator.post(f"/plans/{plan.pk}/folders/{folder.pk}/take-out/", {"by": "folder"})
    assert answer["Location"] == f"/plans/{plan.pk}/?by=folder"
    assert f"/folders/{folder.pk}/put-back/" in text_of(operator, f"/plans/{plan.pk}/?by=folder")
    operator.post(f"/plans/{plan.pk}/discard/")
    assert "take-out" not in text_of(operator, f"/plans/{plan.pk}/")
    assert operator.post(f"/plans/{plan.pk}/files/{row.pk}/take-out/", follow=True).status_code == 200
    assert operator.post("/plans/999/discard/").status_code == 404
    assert operator.post(f"/plans/{plan.pk}/files/999/keep/").status_code == 302  # it is discarded: said, not hidden


def test_a_viewer_changes_nothing(viewer: Client, plan: Plan) -> None:
    row, folder = item(plan, "old/b.jpg"), PlanFolder.objects.filter(plan=plan).first()
    assert folder is not None
    parts = [f"files/{row.pk}/take-out", f"files/{row.pk}/put-back", f"files/{row.pk}/keep", "discard", "again"]
    for part in [*parts, f"folders/{folder.pk}/take-out", f"folders/{folder.pk}/put-back"]:
        assert viewer.post(f"/plans/{plan.pk}/{part}/").status_code == 403, part
    assert viewer.post("/plans/create/", {"rule_set": "tidy"}).status_code == 403
    assert viewer.get("/plans/new/").status_code == 403
    assert Plan.objects.count() == 1


# --- Making -----------------------------------------------------------------------------------------------
def test_the_form_makes_a_plan(operator: Client) -> None:
    photos, rules = library(), rule_set()
    copies(photos, 1, "a", "old/a", size=5_000)
    copies(photos, 2, "b", "old/b", size=10)
    html = text_of(operator, "/plans/new/")
    assert f'<option value="{rules.pk}">tidy' in html
    sent = {"rule_set": rules.pk, "action": "hardlink", "library": photos.pk, "folder": "old", "least_size": "1 kB"}
    answer = operator.post("/plans/create/", sent)
    plan = Plan.objects.get()
    assert answer["Location"] == f"/plans/{plan.pk}/"
    assert (plan.action, plan.rule_set_name, plan.rules, plan.created_by) == ("hardlink", "tidy", SHORTEST, "operator")
    drain("jobs")
    assert paths(plan, "remove") == ["old/a"]


def test_the_groups_page_brings_its_filter_or_its_marks(operator: Client) -> None:
    photos, rules = library(), rule_set()
    file, _ = copies(photos, 1, "a", "old/a")
    key = f"blake3:{digest(1).hex()}"
    html = text_of(operator, f"/plans/new/?library={photos.pk}")
    assert f'name="filter" value="library={photos.pk}"' in html
    assert "Groups in photos" in html
    operator.post("/plans/create/", {"rule_set": "tidy", "action": "trash", "filter": f"library={photos.pk}"})
    assert Plan.objects.latest("pk").filter == f"library={photos.pk}"
    sent = {"action": "trash", "rule_set": "", "group": [key], f"choice-{file.pk}": "remove", "choice-77": ""}
    assert operator.post("/plans/create/", sent).status_code == 302
    plan = Plan.objects.latest("pk")
    assert (plan.group_keys, plan.choices, plan.rules) == ([key], {str(file.pk): "remove"}, [])
    assert rules.name == "tidy"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"rule_set": "", "action": "trash"}, "every file stays"),
        ({"rule_set": "tidy", "action": "shred"}, "no action"),
        ({"rule_set": "gone", "action": "trash"}, "no rule set"),
        ({"rule_set": "tidy", "action": "trash", "least_size": "much"}, "Write a number with a unit"),
        ({"rule_set": "tidy", "action": "trash", "folder": "x", "least_size": ""}, "Choose the library"),
        ({"rule_set": "tidy", "action": "trash", "group": "x"}, "no group key"),
    ],
)
def test_what_can_not_be_planned_is_said_in_the_form(operator: Client, sent: dict[str, Any], words: str) -> None:
    rule_set()
    answer = operator.post("/plans/create/", sent)
    assert answer.status_code == 200
    assert words in words_of(answer.content.decode())
    assert not Plan.objects.exists()


@pytest.mark.parametrize(
    ("state", "said"),
    [({"is_writable": False}, "“photos” can't be written to"), ({"mount": "absent"}, "its folder is not there")],
)
def test_a_plan_for_files_that_nothing_can_be_done_to_says_so_in_red(
    operator: Client, state: dict[str, Any], said: str
) -> None:
    files = copies(library(**state), 1, "a", "old/a")
    sent = {"action": "trash", f"choice-{files[1].pk}": "remove"}
    for wish in ({"rule_set": rule_set().pk, "action": "trash"}, sent):
        operator.post("/plans/create/", wish)
        drain("jobs")
        plan = Plan.objects.latest("pk")
        assert paths(plan, "remove") == ["old/a"]
        html = text_of(operator, f"/plans/{plan.pk}/")
        (warning,) = re.findall(r'<li class="plan-warning is-danger".*?</li>', html, flags=re.S)
        assert said in words_of(warning)


# --- CSV and API ------------------------------------------------------------------------------------------
def test_csv_has_every_file(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplicates.plan_views.EXPORT_ROWS", 2)
    copies(library(), 1, "a", "old/b", f"old/{HOSTILE}")
    plan = planned()
    plan_changing.take_out(plan.pk, [item(plan, "old/b").pk], actor="vera")
    answer = viewer.get(f"/plans/{plan.pk}/csv/")
    assert answer["Content-Disposition"] == f'attachment; filename="plan-{plan.pk}.csv"'
    rows = list(csv.DictReader(StringIO(answer.getvalue().decode())))
    assert [(row["role"], row["taken_out"]) for row in rows] == [("keep", "0"), ("remove", "1"), ("remove", "0")]
    assert rows[2]["keeper_path"] == "a"
    assert bytes.fromhex(rows[2]["path_hex"]) == b"old/caf\xe9 <script>alert(1)</script>\n.jpg"


def test_no_cell_of_the_csv_is_a_formula(viewer: Client) -> None:
    photos = library("=HYPERLINK(evil)")
    copies(photos, 1, "-1+2", "@old/=cmd|' /C calc'!A0")
    text = viewer.get(f"/plans/{planned().pk}/csv/").getvalue().decode()
    rows = list(csv.DictReader(StringIO(text)))
    assert [row["path"] for row in rows] == ["'-1+2", "'@old/=cmd|' /C calc'!A0"]
    assert {row["library"] for row in rows} == {"'=HYPERLINK(evil)"}
    assert rows[1]["keeper_path"] == "'-1+2"
    assert bytes.fromhex(rows[0]["path_hex"]) == b"-1+2"
    assert all(cell.startswith('"') or cell.isdecimal() for cell in text.splitlines()[1].split(",")), "text is quoted"


def test_the_api_makes_and_reads_plans(operator: Client, viewer: Client) -> None:
    photos = library()
    copies(photos, 1, "a", "old/a", "old/b/a")
    rule_set()
    answer = operator.post("/api/v1/plans", {"rule_set": "tidy"}, "application/json")
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert (made["status"], made["job_status"], made["rule_set"]) == ("planning", "pending", "tidy")
    drain("jobs")
    read = viewer.get(f"/api/v1/plans/{made['id']}").json()
    assert (read["status"], read["remove_count"], read["freed_bytes"]) == ("ready", 2, 2_000)
    assert any("would become empty" in warning["words"] for warning in read["warnings"])
    page = viewer.get(f"/api/v1/plans/{made['id']}/files?limit=2").json()
    rest = viewer.get(f"/api/v1/plans/{made['id']}/files?limit=2&cursor={page['next_cursor']}").json()
    assert [file["relative_path"] for file in page["items"] + rest["items"]] == ["a", "old/a", "old/b/a"]
    assert rest["next_cursor"] is None
    kept = viewer.get(f"/api/v1/plans/{made['id']}/files?role=keep").json()["items"]
    assert page["items"][1]["keeper_id"] == kept[0]["id"]
    assert [plan["id"] for plan in viewer.get("/api/v1/plans").json()["items"]] == [made["id"]]


def test_the_api_refuses_in_words(operator: Client, viewer: Client) -> None:
    assert viewer.post("/api/v1/plans", {"rules": SHORTEST}, "application/json").status_code == 403
    for body, status in (
        ({}, 409),
        ({"rule_set": "none"}, 404),
        ({"rules": SHORTEST, "rule_set": "none"}, 422),
        ({"rules": SHORTEST, "filter": "library=1234"}, 409),
        ({"rules": SHORTEST, "acton": "trash"}, 422),
        ({"rules": SHORTEST, "choices": {"1": "shred"}}, 422),
    ):
        answer = operator.post("/api/v1/plans", body, "application/json")
        assert answer.status_code == status, (body, answer.content)
        assert answer.json()["detail"]
    assert viewer.get("/api/v1/plans/99").status_code == 404
    assert viewer.get("/api/v1/plans?cursor=x").status_code == 422
    assert LibraryRoot.objects.count() == 0
