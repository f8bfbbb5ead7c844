from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from accounts.models import Role
from duplicates import rule_sets
from duplicates.models import Plan, RuleSet
from duplicates.rule_folders import Libraries
from duplicates.rule_kinds import Folder, WrongRule
from libraries import changing
from libraries.models import LibraryFile
from libraries.names import to_text
from logbook.models import LogbookEvent
from tests import factories
from tests.pages import AGO, HTMX, words_of

pytestmark = pytest.mark.django_db

HOSTILE = to_text(b"caf\xe9 <script>alert(1)</script>.jpg")


def read(answer: Any) -> str:
    assert answer.status_code == 200, answer.status_code
    return words_of(answer.content.decode())


def form(*rules: tuple[str, str], name: str = "Mine", **more: str) -> dict[str, str]:
    sent = {"name": name, **more}
    for number, (kind, value) in enumerate(rules):
        sent |= {f"rule-{number}-kind": kind, f"rule-{number}-value": value, f"rule-{number}-key": str(number + 1)}
    return sent


def rows_in(answer: Any) -> list[tuple[str, str]]:
    """Kind and key of each row of the form, in their order."""
    html = answer.content.decode()
    kinds = re.findall(r'name="rule-(\d+)-kind" value="(\w+)"', html)
    keys = re.findall(r'name="rule-(\d+)-key" value="(\d+)"', html)
    assert [number for number, _ in kinds] == [number for number, _ in keys] == [str(n) for n in range(len(kinds))]
    return [(kind, key) for (_, kind), (_, key) in zip(kinds, keys, strict=True)]


def made(name: str = "Mine", rules: list[dict[str, Any]] | None = None) -> RuleSet:
    return rule_sets.save(name, rules or [{"kind": "keep_oldest"}], actor="ada")


def twins(*files: tuple[Any, str, int], content: bytes = b"1" * 32) -> None:
    """Files of equal content: library, path, mtime."""
    for number, (library, path, mtime) in enumerate(files, 1):
        factories.library_file(
            path, library, size_bytes=1000, mtime_ns=mtime, inode=number, device=1, nlink=1, needs_hash=False,
            hash_algorithm="blake3", content_hash=content,
        )  # fmt: skip


# --- The list -----------------------------------------------------------------------------------------------
def test_empty_list_explains_and_offers_two_sets_to_start_from(viewer: Client, operator: Client) -> None:
    words = read(operator.get("/rules/"))
    assert "No rules yet" in words
    assert "its twin in Downloads goes" in words
    assert words.count("Start from this") == 2
    html = viewer.get("/rules/").content.decode()
    assert "/rules/add/" not in html
    assert "An operator can write some." in html


def test_ready_made_sets_can_be_saved_as_they_are(operator: Client) -> None:
    for key in ("originals", "one-per-disk"):
        answer = operator.get("/rules/add/", {"from": key})
        sent = dict(re.findall(r'name="(rule-\d+-(?:kind|key|value)|name)" value="([^"]*)"', answer.content.decode()))
        chosen = re.findall(r'name="(rule-\d+-value)"[^>]*><option.*?value="(\w+)" selected', answer.content.decode())
        assert operator.post("/rules/add/", {**sent, **dict(chosen)}).status_code == 302
    assert RuleSet.objects.count() == 2
    assert operator.get("/rules/add/", {"from": "nothing"}).status_code == 200


def test_list_shows_rules_in_words_and_the_plans_made_with_them(viewer: Client) -> None:
    library = factories.library("Photos")
    folders = [{"library": library.pk, "path": "2019"}, {"library": 4711, "path": ""}]
    made("Photos first", [{"kind": "keep_in", "folders": folders}, {"kind": "keep_copies", "count": 2}])
    Plan.objects.create(rule_set_name="Photos first")
    changing.change(library.pk, actor="ada", name="Pictures")
    words = read(viewer.get("/rules/"))
    assert "Keep in folders: Pictures/2019, then library 4711 (removed)" in words
    assert "Keep 2 copies" in words
    assert re.search(f"Photos first .* 1 {AGO}", words)
    assert "Change" not in words


def test_list_shows_a_set_that_somebody_broke(operator: Client) -> None:
    broken = RuleSet.objects.create(name="Broken", rules=[{"kind": "eat"}])
    assert "Rule 1: A rule is an object" in read(operator.get("/rules/"))
    assert "These rules can't be used" in read(operator.get(f"/rules/{broken.pk}/"))


# --- Writing ------------------------------------------------------------------------------------------------
def test_operator_saves_a_set_and_the_logbook_says_so(operator: Client) -> None:
    library = factories.library("Photos", "/libraries/pics")
    lines = "Photos/2019/\r\n\r\n /libraries/pics/old \r\nPhotos"
    answer = operator.post("/rules/add/", form(("keep_in", lines), ("keep_copies", " 2 "), ("keep_oldest", "")))
    assert (answer.status_code, answer["Location"]) == (302, "/rules/")
    saved = RuleSet.objects.get()
    folders = [{"library": library.pk, "path": path} for path in ("2019", "old", "")]
    assert saved.rules == [
        {"kind": "keep_in", "folders": folders}, {"kind": "keep_copies", "count": 2}, {"kind": "keep_oldest"},
    ]  # fmt: skip
    assert (saved.name, saved.created_by) == ("Mine", "operator")
    (event,) = LogbookEvent.objects.about("rule_sets", str(saved.pk))
    assert (event.event_type, event.actor) == ("rules_added", "operator")


def test_changing_a_set_notes_what_it_was_and_saving_it_unchanged_notes_nothing(operator: Client) -> None:
    rule_set = made()
    address = f"/rules/{rule_set.pk}/"
    operator.post(address, form(("keep_newest", "")))
    operator.post(address, form(("keep_newest", "")))
    rule_set.refresh_from_db()
    assert rule_set.rules == [{"kind": "keep_newest"}]
    events = list(LogbookEvent.objects.about("rule_sets", str(rule_set.pk)))
    assert [event.event_type for event in events] == ["rules_added", "rules_changed"]
    assert events[1].payload_json["changes"] == {"rules": [[{"kind": "keep_oldest"}], [{"kind": "keep_newest"}]]}


def test_what_is_wrong_is_said_beside_its_rule_and_nothing_is_saved(operator: Client) -> None:
    factories.library("Photos")
    wrong = form(("keep_in", "Nowhere/a"), ("keep_oldest", ""), ("keep_copies", "many"), ("keep_name", ""), name=" ")
    html = operator.post("/rules/add/", wrong).content.decode()
    assert "Nothing was saved" in html
    assert "A set of rules needs a name." in html
    rows = re.findall(r'<li class="rule-row[^"]*" id="rule-(\d)">(.*?)</li>', html, flags=re.S)
    said = {key: re.findall(r'field-error">(.*?)</p>', row) for key, row in rows}
    assert said["2"] == []
    assert "Nowhere/a: begin with the name of a library, like Photos/2019." in said["1"][0]
    assert "a number from 1 to 1000" in said["3"][0]
    assert "Write a pattern" in said["4"][0]
    assert "Nowhere/a</textarea>" in html
    assert RuleSet.objects.count() == 0


def test_a_name_that_is_taken_is_refused(operator: Client) -> None:
    made("Mine")
    assert "There is a set “Mine” already" in read(operator.post("/rules/add/", form(("keep_oldest", ""))))
    other = made("Other")
    assert "There is a set “Mine” already" in read(operator.post(f"/rules/{other.pk}/", form()))
    assert "at most" not in read(operator.post("/rules/add/", form(name="n" * 101)))
    assert RuleSet.objects.count() == 2


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_rules_are_added_moved_and_taken_away_without_saving(operator: Client, headers: dict[str, str]) -> None:
    rule_set = made()
    address = f"/rules/{rule_set.pk}/"
    rows = (("keep_oldest", ""), ("keep_name", "*.jpg"), ("keep_newest", ""))
    first, second, third = (("keep_oldest", "1"), ("keep_name", "2"), ("keep_newest", "3"))

    def after(step: str, **more: str) -> list[tuple[str, str]]:
        return rows_in(operator.post(address, form(*rows, do=step, **more), headers=headers))

    assert after("up-1") == [second, first, third]
    assert after("down-1") == [first, third, second]
    assert after("up-0") == after("down-2") == after("up-7") == after("fly-1") == [first, second, third]
    assert after("drop-1") == [first, third]
    assert after("add", new="keep_per") == [first, second, third, ("keep_per", "4")]
    assert after("add", new="eat") == [first, second, third]
    assert RuleSet.objects.get().rules == [{"kind": "keep_oldest"}]


def test_htmx_gets_the_form_alone(operator: Client) -> None:
    html = operator.post("/rules/add/", form(do="add", new="keep_in"), headers=HTMX).content.decode()
    assert "<html" not in html
    assert 'id="rule-editor"' in html
    assert "field-error" not in html, "a row that was only just added is no mistake yet"


def test_htmx_is_led_to_the_list_once_a_set_is_saved_and_to_the_problem_if_not(operator: Client) -> None:
    answer = operator.post("/rules/add/", form(("keep_oldest", ""), do="save"), headers=HTMX)
    assert (answer.status_code, answer["HX-Redirect"]) == (200, "/rules/")
    assert answer.content == b""
    assert RuleSet.objects.count() == 1
    answer = operator.post("/rules/add/", form(("keep_copies", "many"), do="save", name="Other"), headers=HTMX)
    assert (answer.status_code, answer["HX-Reswap"]) == (200, "outerHTML show:top")
    assert "Nothing was saved" in read(answer)
    assert "HX-Reswap" not in operator.post("/rules/add/", form(do="add", new="keep_in"), headers=HTMX)
    assert RuleSet.objects.count() == 1


def test_a_set_has_no_more_rules_than_it_may(operator: Client) -> None:
    rows = [("keep_oldest", "")] * 50
    assert len(rows_in(operator.post("/rules/add/", form(*rows, do="add", new="keep_newest")))) == 50
    assert "A set may have 50 rules" in read(operator.post("/rules/add/", form(*rows, ("keep_oldest", ""))))


def test_a_library_that_is_gone_does_not_keep_its_rules_from_being_changed(operator: Client) -> None:
    gone: list[dict[str, Any]] = [{"kind": "never_touch", "folders": [{"library": 4711, "path": "a/b"}]}]
    rule_set = made(rules=gone)
    html = operator.get(f"/rules/{rule_set.pk}/").content.decode()
    assert "#4711/a/b</textarea>" in html
    operator.post(f"/rules/{rule_set.pk}/", form(("never_touch", "#4711/a/b"), ("keep_oldest", "")))
    rule_set.refresh_from_db()
    assert rule_set.rules == [*gone, {"kind": "keep_oldest"}]


def test_folders_are_written_as_they_are_read_whatever_their_names_hold() -> None:
    photos, slash = factories.library("Photos"), factories.library("Photos/Old", "/libraries/old")
    libraries = Libraries()
    paths = [
        b"2019",
        b"Old/x",
        b"caf\xe9",
        b"new\nline",
        b"end ",
        b" start",
        b"back\\slash",
        b"\\xe9",
        b"\xef\x9f\xa9",
        b"tab\t",
    ]
    for path in paths:
        folder = Folder(photos.pk, to_text(path))
        line = libraries.write_line(folder)
        assert "\n" not in line
        assert libraries.read_line(line.strip()) == folder, path
    assert libraries.read_line("Photos/Old/x") == Folder(slash.pk, "x")
    assert libraries.read_line("Photos/Older") == Folder(photos.pk, "Older")
    assert libraries.read_line("/libraries/old") == Folder(slash.pk, "")
    for line in ("Photosx", "Photos/../..", "", "#", "/etc"):
        with pytest.raises(WrongRule):
            libraries.read_line(line)


# --- The preview --------------------------------------------------------------------------------------------
def test_preview_says_of_each_file_what_would_become_of_it(operator: Client, viewer: Client) -> None:
    photos, loads = factories.library("Photos"), factories.library("Downloads")
    twins((photos, HOSTILE, 1), (loads, "b.jpg", 2))
    words = read(operator.post("/rules/add/", form(("keep_oldest", ""), do="show")))
    assert "In the group with most to win: 1 would go, 1 would stay." in words
    assert "Goes: Photos/caf\\xe9 <script>alert(1)</script>.jpg stays by rule 1 (Keep the oldest)." in words
    rule_set = made(rules=[{"kind": "keep_newest"}])
    answer = viewer.get(f"/rules/{rule_set.pk}/")
    assert "<script>alert" not in answer.content.decode()
    assert "Stays by rule 1: it is newer than" in read(answer)
    assert LibraryFile.objects.count() == 2


def test_preview_shows_only_so_many_groups_and_files(operator: Client) -> None:
    photos = factories.library("Photos")
    for group in range(12):
        twins(*((photos, f"{group}/{n}.jpg", n) for n in range(15 if group == 0 else 2)), content=bytes([group]) * 32)
    html = operator.post("/rules/add/", form(("keep_oldest", ""), do="show")).content.decode()
    assert html.count('class="rule-group"') == 10
    assert html.count('class="rule-file ') == 12 + 9 * 2
    assert "and 3 more" in html


def test_preview_waits_until_every_rule_says_what_it_needs(operator: Client) -> None:
    for rows in ([("keep_in", "")], [], [("keep_copies", "none")]):
        assert "Shown here as soon as" in read(operator.post("/rules/add/", form(*rows, do="show")))


# --- Removing, and who may ----------------------------------------------------------------------------------
def test_removing_asks_first_and_leaves_plans_as_they_are(operator: Client) -> None:
    rule_set = made()
    Plan.objects.create(rule_set_name="Mine", rules=rule_set.rules)
    address = f"/rules/{rule_set.pk}/remove/"
    assert "1 plan was made with it." in read(operator.get(address))
    assert RuleSet.objects.exists()
    assert operator.post(address).status_code == 302
    assert not RuleSet.objects.exists()
    assert Plan.objects.get().rules == [{"kind": "keep_oldest"}]
    last = LogbookEvent.objects.about("rule_sets", str(rule_set.pk)).last()
    assert last is not None
    assert (last.event_type, last.payload_json["name"]) == ("rules_removed", "Mine")
    assert operator.post(address).status_code == 404


def test_viewers_read_and_change_nothing(viewer: Client) -> None:
    rule_set = made()
    page = f"/rules/{rule_set.pk}/"
    html = viewer.get(page).content.decode()
    assert "Keep the oldest" in html
    assert 'name="do"' not in html
    refused = [viewer.get("/rules/add/"), viewer.get(f"{page}remove/")]
    refused += [viewer.post(address, form()) for address in ("/rules/add/", page, f"{page}remove/")]
    assert {answer.status_code for answer in refused} == {403}
    rule_set.refresh_from_db()
    assert rule_set.rules == [{"kind": "keep_oldest"}]


def test_strangers_and_other_sites_are_refused() -> None:
    rule_set = made()
    for address in ("/rules/", "/rules/add/", f"/rules/{rule_set.pk}/", f"/rules/{rule_set.pk}/remove/"):
        assert Client().get(address).status_code == 302
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(factories.user("otto", Role.OPERATOR))
    assert careful.post(f"/rules/{rule_set.pk}/remove/").status_code == 403
    assert RuleSet.objects.exists()


def test_numbers_of_no_set_are_not_found(operator: Client) -> None:
    for number in ("4711", "9" * 30):
        assert operator.get(f"/rules/{number}/").status_code == 404
        assert operator.get(f"/rules/{number}/remove/").status_code == 404
