from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client

from accounts.models import Role
from duplicates import summary
from duplicates.models import Plan
from jobs.models import Job
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_text
from tests.duplicates.plans import copies, library, planned, unsaved
from tests.pages import HTMX, QueryCounter, logged_in, text_of, words_of
from tests.trash.trashed import carried_out, item_at, left, stayed
from trash import switching
from trash.models import Act, TrashItem

pytestmark = pytest.mark.django_db
HOSTILE = to_text(b"caf\xe9 <script>alert(1)</script>\n.jpg")


@pytest.fixture
def admin() -> Client:
    return logged_in(Role.ADMIN)


@pytest.fixture
def removing_allowed(settings: LazySettings) -> None:
    settings.ALLOW_REAL_DELETE = True
    switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=True, empty_after_days=None)


@pytest.fixture
def plan() -> Plan:
    photos = library()
    copies(photos, 1, "a.jpg", "old/a.jpg", "old/deep/a.jpg", size=2_000)
    copies(photos, 2, "b.jpg", "old/b.jpg", size=1_000)
    made = planned()
    carried_out(made)
    return made


def shown_paths(html: str) -> list[str]:
    return [unescape(path) for path in re.findall(r'<span class="path" title="([^"]+)"', html)]


def selections(verb: str) -> list[Any]:
    return list(Act.objects.filter(verb=verb).order_by("pk").values_list("selection", flat=True))


# --- What lies there --------------------------------------------------------------------------------------
def test_an_empty_trash_says_what_it_is_for(viewer: Client) -> None:
    words = words_of(text_of(viewer, "/trash/"))
    assert "The trash is empty" in words
    assert "Undo all of it" not in words


def test_the_list_shows_each_file_the_newest_first(viewer: Client, plan: Plan) -> None:
    html = text_of(viewer, "/trash/")
    words = words_of(html)
    for part in ("a.jpg", "old/deep/", "photos", f"Plan {plan.pk}", "moved", "until it is emptied", "2.0 kB", "5.0 kB"):
        assert part in words, part
    keys = list(TrashItem.objects.order_by("-pk").values_list("pk", flat=True))
    assert [int(key) for key in re.findall(r'id="item-(\d+)"', html)] == keys
    content = html.split('id="content"')[1].split("</main>")[0]
    assert "/trash/undo/" not in content  # a viewer only looks
    assert 'type="checkbox" name="item"' not in content
    assert "hx-trigger" not in html.split('id="trash-live"')[1].split(">")[0]


def test_a_link_and_an_end_are_told(viewer: Client) -> None:
    copies(library(), 1, "a.jpg", "old/a.jpg")
    carried_out(planned("hardlink"), days_ago=10)
    switching.change(actor="ada", is_acting_allowed=True, is_removing_allowed=False, empty_after_days=30)
    words = words_of(text_of(viewer, "/trash/"))
    assert "replaced by a link" in words
    assert re.search(r"may be emptied in (19|20) d", words)
    assert "until it is emptied" not in words.replace("on the disks, until it is emptied", "")


def test_hostile_names_are_whole_and_harmless(operator: Client) -> None:
    copies(library("<b>bold</b>"), 1, "a", f"old/<i>/{HOSTILE}")
    carried_out(planned())
    html = text_of(operator, "/trash/")
    assert "<script>alert" not in html
    assert "<b>bold" not in html
    assert "caf\\xe9 &lt;script&gt;" in html
    (address,) = set(re.findall(r'href="(/trash/history/[^"]+)"', html))
    assert "caf\\xe9 &lt;script&gt;" in text_of(operator, unescape(address))


def test_the_list_goes_on_by_key(viewer: Client, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trash.views.PAGE_ITEMS", 1)
    TrashItem.objects.filter(pk=item_at("old/a.jpg").pk).update(status="undoing")
    seen: list[int] = []
    address = "/trash/"
    while address:
        html = text_of(viewer, address, **(HTMX if seen else {}))
        assert ("<html" in html) == (not seen)
        seen += [int(key) for key in re.findall(r'id="item-(\d+)"', html)]
        more = re.search(r'id="load-more" href="([^"]+)"', html)
        address = unescape(more[1]) if more else ""
    assert seen == list(TrashItem.objects.order_by("-pk").values_list("pk", flat=True))
    assert len(seen) == 3
    assert viewer.get("/trash/?before=x").status_code == 404
    assert "There are no older ones" in text_of(viewer, "/trash/?before=1")


def test_the_address_says_what_is_shown(viewer: Client, plan: Plan) -> None:
    photos, music = LibraryRoot.objects.get(), library("music")
    copies(music, 3, "c.mp3", "Old/c.mp3")
    other = planned(filter=f"library={music.pk}")
    carried_out(other)
    assert shown_paths(text_of(viewer, f"/trash/?library={music.pk}")) == ["Old/c.mp3"]
    assert shown_paths(text_of(viewer, f"/trash/?plan={other.pk}")) == ["Old/c.mp3"]
    assert sorted(shown_paths(text_of(viewer, f"/trash/?library={photos.pk}&folder=old"))) == [
        "old/a.jpg", "old/b.jpg", "old/deep/a.jpg",
    ]  # fmt: skip
    assert shown_paths(text_of(viewer, f"/trash/?library={photos.pk}&folder=old/deep/")) == ["old/deep/a.jpg"]
    # Letters are told apart by their case, and a beginning of a name is no folder.
    for nothing in (f"library={music.pk}&folder=old", f"library={photos.pk}&folder=ol", "plan=9999"):
        assert "Nothing in the trash is like that" in words_of(text_of(viewer, f"/trash/?{nothing}")), nothing


@pytest.mark.parametrize("bad", ["library=x", "folder=old", "plan=x", "plan=0", "library=1&folder=%00"])
def test_a_filter_that_cant_be_used_says_why(viewer: Client, bad: str) -> None:
    answer = viewer.get(f"/trash/?{bad}")
    assert answer.status_code == 400
    assert "This filter can't be used" in unescape(answer.content.decode())


def test_a_rare_file_is_found_in_windows(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a million files, in small: whoever runs out of time says where to go on."""
    monkeypatch.setattr("trash.searching.FIRST_WINDOW", 3)
    monkeypatch.setattr("trash.views.PAGE_ITEMS", 1)
    photos = library()
    copies(photos, 1, "a", "rare/a")
    copies(photos, 2, "b", *(f"many/{number}" for number in range(20)))
    plan = planned()
    carried_out(plan)
    rare = f"/trash/?library={photos.pk}&folder=rare"
    assert shown_paths(text_of(viewer, rare)) == ["rare/a"]
    monkeypatch.setattr("trash.listing.PATIENCE_SECONDS", -1.0)
    address, seen, pages = rare, [], 0
    while address:
        html = text_of(viewer, address)
        seen += shown_paths(html)
        pages += 1
        more = re.search(r'id="load-more" href="([^"]+)"', html)
        address = unescape(more[1]) if more else ""
        assert not more or seen or "Go on looking" in html
    assert seen == ["rare/a"]
    assert pages > 1


def test_a_page_costs_the_same_whatever_lies_there(
    operator: Client, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost(address: str) -> int:
        counter = QueryCounter()
        with connection.execute_wrapper(counter):
            text_of(operator, address)
        return counter.count

    def costs() -> list[int]:
        photos = LibraryRoot.objects.get().pk
        summary.bring_up_to_date()
        addresses = ("/trash/", f"/trash/?library={photos}&folder=old", "/trash/?last=1", "/trash/live/")
        return [cost(address) for address in (*addresses, f"/trash/history/?library={photos}&path=old/a.jpg")]

    few = costs()
    LibraryFile.objects.bulk_create(unsaved(LibraryRoot.objects.get(), 5, "z", *(f"old/{n}.jpg" for n in range(70))))
    carried_out(planned())
    LibraryFile.objects.filter(relative_path="z").update(is_missing=True)
    many = costs()
    assert many[:2] == few[:2]
    assert many[3:] == few[3:]
    assert few[2] <= many[2] <= few[0] + 2  # empty before
    assert max(many) <= 24


# --- Last copies ------------------------------------------------------------------------------------------
def test_last_copies_are_told_of_with_the_way_out(operator: Client, plan: Plan) -> None:
    assert "no other copy" not in words_of(text_of(operator, "/trash/"))
    LibraryFile.objects.filter(relative_path="b.jpg").update(is_missing=True)
    html = text_of(operator, "/trash/")
    assert "1 file in the trash has no other copy that is known" in words_of(html)
    assert html.count("is-last") == 1
    assert shown_paths(text_of(operator, "/trash/?last=1")) == ["old/b.jpg"]
    operator.post("/trash/undo/", {"filter": "last=1"})
    assert selections("undo") == [{"items": [item_at("old/b.jpg").pk]}]


def test_what_emptying_found_to_be_the_last_copy_is_one(viewer: Client, plan: Plan) -> None:
    stayed(item_at("old/a.jpg"), "LAST_COPY", "No other copy was found.", "empty")
    words = words_of(text_of(viewer, "/trash/?last=1"))
    assert "No other copy was found." in words
    assert "stays: emptying found no other copy" in words
    assert shown_paths(text_of(viewer, "/trash/?last=1")) == ["old/a.jpg"]


def test_a_changed_algorithm_makes_no_last_copies(viewer: Client, plan: Plan) -> None:
    LibraryFile.objects.filter(is_missing=False).update(hash_algorithm="sha256")
    assert "no other copy" not in words_of(text_of(viewer, "/trash/"))
    LibraryFile.objects.filter(relative_path="b.jpg").update(mtime_ns=99)
    assert shown_paths(text_of(viewer, "/trash/?last=1")) == ["old/b.jpg"]


# --- Undo -------------------------------------------------------------------------------------------------
def test_an_operator_undoes_a_selection_a_plan_a_folder_and_all(operator: Client, plan: Plan) -> None:
    photos = LibraryRoot.objects.get()
    one, two = item_at("old/a.jpg"), item_at("old/b.jpg")
    html = text_of(operator, f"/trash/?plan={plan.pk}")
    assert f'name="item" value="{one.pk}" form="marked"' in html
    assert f"Everything of plan {plan.pk}" in words_of(html)
    answer = operator.post("/trash/undo/", {"marked": "1", "item": [one.pk, two.pk], "back": f"plan={plan.pk}"})
    assert answer["Location"] == f"/trash/?plan={plan.pk}"
    operator.post("/trash/undo/", {"marked": "1", "items": f"{one.pk},{two.pk}"})
    operator.post("/trash/undo/", {"filter": f"plan={plan.pk}"})
    operator.post("/trash/undo/", {"filter": f"library={photos.pk}&folder=old/deep"})
    operator.post("/trash/undo/", {"filter": ""})
    both = {"items": sorted([one.pk, two.pk])}
    assert selections("undo") == [both, both, {"plan": plan.pk}, {"folder": [photos.pk, "old/deep"]}, {"all": True}]
    assert set(Act.objects.filter(verb="undo").values_list("authorised_by", flat=True)) == {"operator"}
    # A filter that no selection can say becomes the numbers of its files.
    operator.post("/trash/undo/", {"filter": f"plan={plan.pk}&library={photos.pk}&folder=old/deep"})
    assert selections("undo")[-1] == {"items": [item_at("old/deep/a.jpg").pk]}


def test_nothing_marked_and_nonsense_are_refused_in_words(operator: Client, plan: Plan) -> None:
    for sent in (
        {"marked": "1"}, {"marked": "1", "item": "x"}, {"filter": "plan=x"}, {"filter": "plan=9999"}, {},
        {"selection": "{"}, {"marked": "1", "item": "999999"},
    ):  # fmt: skip
        answer = operator.post("/trash/undo/", sent, follow=True)
        assert answer.status_code == 200
        assert b"message is-danger" in answer.content, sent
    assert selections("undo") == []


def test_who_may_not_is_refused(viewer: Client, operator: Client, plan: Plan) -> None:
    sent = {"marked": "1", "item": item_at("old/a.jpg").pk}
    assert viewer.post("/trash/undo/", sent).status_code == 403
    for client in (viewer, operator):
        assert client.get("/trash/empty/?filter=").status_code == 403
        assert client.post("/trash/empty/", {**sent, "typed": "1"}).status_code == 403
    assert "Empty…" not in text_of(operator, "/trash/")
    assert operator.get("/trash/undo/").status_code == 405
    for address in ("/trash/", "/trash/live/", "/trash/history/?library=1&path=a"):
        assert "/login/" in Client().get(address)["Location"]
    assert not Act.objects.exclude(verb="act").exists()


def test_a_file_that_could_not_be_undone_says_why(viewer: Client, plan: Plan) -> None:
    stayed(item_at("old/a.jpg"), "PLACE_TAKEN", "Another file is at old/a.jpg <now>.")
    words = words_of(text_of(viewer, "/trash/"))
    assert "Another file is at old/a.jpg <now>." in words
    assert "1 file stays in the trash: the reason stands beside it" in words
    stayed(item_at("old/b.jpg"), "FOLDER_GONE", "")
    assert "The folder it came from is gone" in words_of(text_of(viewer, "/trash/"))
    stayed(item_at("old/b.jpg"), "LAST_COPY", "", "empty")
    assert "1 file was not removed: the reason stands beside it" in words_of(text_of(viewer, "/trash/"))


# --- Emptying ---------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("removing_allowed")
def test_an_admin_types_the_number_that_the_server_counted(admin: Client, plan: Plan) -> None:
    html = text_of(admin, f"/trash/empty/?filter=plan%3D{plan.pk}")
    assert "3 files, 5.0 kB" in words_of(html)
    found = re.search(r'name="selection" value="([^"]+)"', html)
    assert found is not None
    selection = unescape(found[1])
    answer = admin.post("/trash/empty/", {"selection": selection, "typed": "2"})
    assert "Nothing was done" in words_of(answer.content.decode())
    assert selections("empty") == []
    assert admin.post("/trash/empty/", {"selection": selection, "typed": "3"})["Location"] == "/trash/"
    assert selections("empty") == [{"plan": plan.pk}]
    act = Act.objects.get(verb="empty")
    assert (act.authorised_by, act.file_count, act.total_bytes) == ("admin", 3, 5_000)


@pytest.mark.usefixtures("removing_allowed")
def test_what_was_marked_and_what_is_old_is_counted_first(admin: Client, plan: Plan) -> None:
    old = library("music")
    copies(old, 7, "c", "old/c", size=50)
    carried_out(planned(filter=f"library={old.pk}"), days_ago=40)
    words = words_of(text_of(admin, "/trash/empty/?older_than_days=30"))
    assert "1 file, 50 B" in words
    answer = admin.post("/trash/empty/", {"marked": "1", "item": item_at("old/b.jpg").pk, "back": "last=1"})
    html = answer.content.decode()
    assert "1 file, 1.0 kB" in words_of(html)
    assert 'href="/trash/?last=1"' in html
    assert selections("empty") == []
    assert "There is nothing to remove" in words_of(text_of(admin, "/trash/empty/?older_than_days=300"))
    assert admin.get("/trash/empty/?older_than_days=soon", follow=True).redirect_chain == [("/trash/", 302)]
    assert admin.get("/trash/empty/", follow=True).redirect_chain == [("/trash/", 302)]


def test_where_removing_is_not_allowed_the_page_says_so(admin: Client, plan: Plan) -> None:
    assert "Removing for good is switched off" in words_of(text_of(admin, "/trash/"))
    html = text_of(admin, f"/trash/empty/?filter=plan%3D{plan.pk}")
    assert "This is not allowed now" in words_of(html)
    assert 'name="typed"' not in html
    answer = admin.post("/trash/empty/", {"selection": '{"all": true}', "typed": "3"})
    assert "Removing for good is switched off" in words_of(answer.content.decode())
    assert selections("empty") == []


# --- What is done about it --------------------------------------------------------------------------------
def test_the_page_follows_acts_until_they_end(operator: Client, plan: Plan) -> None:
    item = item_at("old/a.jpg")
    operator.post("/trash/undo/", {"marked": "1", "item": item.pk})
    act = Act.objects.get(verb="undo")
    html = text_of(operator, "/trash/")
    assert "every 5s" in html
    assert html.count('hx-trigger="every') == 1
    Job.objects.filter(pk=act.job_id).update(status="running")
    Act.objects.filter(pk=act.pk).update(status="running")
    TrashItem.objects.filter(pk=item.pk).update(status="undoing", left_by=act)
    html = text_of(operator, "/trash/")
    assert "being put back" in words_of(html)
    assert f'value="{item.pk}" form="marked"' not in html  # it can't be marked while it leaves
    answer = operator.get("/trash/live/", headers=HTMX)
    assert "every 2s" in answer.content.decode()
    assert "HX-Trigger" not in answer
    TrashItem.objects.filter(pk=item.pk).update(status="undone")
    Act.objects.filter(pk=act.pk).update(status="completed", done_count=1, finished_at=act.authorised_at)
    answer = operator.get("/trash/live/", headers=HTMX)
    assert "every" not in answer.content.decode().split('id="trash-live"')[1].split(">")[0]
    assert answer["HX-Trigger"] == "trash-changed"
    assert "1 file is back" in words_of(answer.content.decode())


def test_only_an_admin_sees_stop(operator: Client, admin: Client, plan: Plan) -> None:
    operator.post("/trash/undo/", {"filter": ""})
    act = Act.objects.get(verb="undo")
    assert f"/acts/{act.pk}/stop/" in text_of(admin, "/trash/live/")
    assert f"/acts/{act.pk}/stop/" not in text_of(operator, "/trash/live/")


def test_what_left_is_not_listed(viewer: Client, plan: Plan) -> None:
    left(item_at("old/a.jpg"))
    left(item_at("old/b.jpg"), "empty")
    assert shown_paths(text_of(viewer, "/trash/")) == ["old/deep/a.jpg"]
