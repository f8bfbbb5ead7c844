"""Django's admin: every table of ours is there, its pages open, cost the same for many rows, and follow our look."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db import connection
from django.db.models import ForeignKey, Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import Role
from frame.admin_readonly import KEY_ALONE, ReadOnlyAdmin
from libraries.models import LibraryFile
from tests.pages import QueryCounter, logged_in, text_of
from tests.site import table_rows
from tests.site.table_rows import ALONE, MAKERS
from trash.models import TrashItem

pytestmark = pytest.mark.django_db

MANY = 20
#: Tables of ours that the admin does not show, each with the reason.
NOT_SHOWN: dict[str, str] = {}
SHOWN = sorted(admin.site._registry, key=lambda model: model._meta.label)
OURS = [model for model in SHOWN if isinstance(admin.site.get_model_admin(model), ReadOnlyAdmin)]
LARGE = [model for model in OURS if admin.site.get_model_admin(model).is_large]  # type: ignore[attr-defined]
each_table = pytest.mark.parametrize("model", SHOWN, ids=lambda model: model._meta.label)
each_large_table = pytest.mark.parametrize("model", LARGE, ids=lambda model: model._meta.label)
each_of_ours = pytest.mark.parametrize("model", OURS, ids=lambda model: model._meta.label)


@pytest.fixture
def boss() -> Client:
    return logged_in(Role.ADMIN)


def list_page(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def row_page(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(row.pk)])


def queries_of(boss: Client, address: str) -> int:
    boss.get(address)  # what a first look writes down is not asked for again
    counter = QueryCounter()
    with connection.execute_wrapper(counter):
        assert boss.get(address).status_code == 200
    return counter.count


# --- Every table ------------------------------------------------------------------------------------------
def test_every_table_of_ours_is_there() -> None:
    rooms = [room for room in apps.get_app_configs() if Path(room.path).parent == settings.BASE_DIR]
    assert len(rooms) >= 9
    missing = {
        model._meta.label
        for room in rooms
        for model in room.get_models()
        if not admin.site.is_registered(model) or model not in OURS
    }
    assert missing == set(NOT_SHOWN)


def test_every_table_that_is_shown_has_rows_to_be_tested_with() -> None:
    assert {model._meta.label for model in SHOWN} == {model._meta.label for model in MAKERS}


@each_table
def test_a_list_and_its_rows_open_and_many_rows_cost_no_more_queries(model: type[Model], boss: Client) -> None:
    row = MAKERS[model](0)
    row.refresh_from_db()
    assert row_page(row) in text_of(boss, list_page(model))
    html = text_of(boss, row_page(row))
    assert "<b>" not in html
    assert ">None<" not in html
    few = queries_of(boss, list_page(model))
    if model not in ALONE:
        for number in range(1, MANY):
            MAKERS[model](number)
        assert model._default_manager.count() >= MANY
    assert queries_of(boss, list_page(model)) == few


@each_table
def test_any_search_and_any_filter_is_answered(model: type[Model], boss: Client) -> None:
    MAKERS[model](0)
    for term in ("x", "7", "9" * 30, "ä b", "50%_", "f" * 64, "blake3:" + "f" * 64, "/libraries/photos-0/sub"):
        assert boss.get(list_page(model), {"q": term}).status_code == 200, term
    answer = boss.get(list_page(model))
    choices = [choice for spec in answer.context["cl"].filter_specs for choice in spec.choices(answer.context["cl"])]
    for choice in choices:
        assert boss.get(list_page(model) + choice["query_string"]).status_code == 200, choice


@each_of_ours
def test_every_search_says_what_it_looks_for(model: type[Model]) -> None:
    tables = admin.site.get_model_admin(model)
    assert not tables.search_fields or tables.search_help_text


# --- Large tables -----------------------------------------------------------------------------------------
@each_large_table
def test_a_large_table_is_never_read_whole(model: type[Model], boss: Client) -> None:
    MAKERS[model](0)
    for query in ({}, {"q": "x"}):
        with CaptureQueriesContext(connection) as queries:
            boss.get(list_page(model), query)
        asked = [query["sql"] for query in queries if f'"{model._meta.db_table}"' in query["sql"]]
        assert asked
        assert [sql for sql in asked if "COUNT(" in sql and "LIMIT" not in sql] == []
        assert [sql for sql in asked if "DISTINCT" in sql] == []
        parts = [sql for sql in asked if "LIKE" in sql.upper()]
        assert [sql for sql in parts if f'."{model._meta.pk.column}" > ' not in sql] == []


@each_large_table
def test_the_rows_of_a_large_table_come_in_the_order_of_an_index(model: type[Model], boss: Client) -> None:
    MAKERS[model](0)
    answers = [boss.get(list_page(model))]
    if model is LibraryFile:
        answers.append(boss.get(list_page(model), {"library__id__exact": table_rows.library(0).pk}))
    for answer in answers:
        rows = answer.context["cl"].queryset
        # PostgreSQL sorts what is as short as here, whatever indexes there are.
        assert connection.vendor == "postgresql" or "TEMP B-TREE" not in rows.explain(), rows.explain()
        assert rows.exists()


@each_large_table
def test_what_is_looked_for_in_all_of_a_large_table_has_an_index(model: type[Model]) -> None:
    fields = admin.site.get_model_admin(model).search_fields
    exact = {field.removesuffix("__exact") for field in fields if field.endswith("__exact")}
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, model._meta.db_table)
    first = {each["columns"][0] for each in found.values() if each["columns"] and (each["index"] or each["unique"])}
    assert exact <= first
    assert KEY_ALONE not in exact


def test_tables_with_a_row_for_each_file_are_large() -> None:
    """Whatever names a file, a plan's file or a logbook's item grows with the files."""
    assert {model._meta.label for model in OURS if _grows(model)} <= {model._meta.label for model in LARGE}


def _grows(model: type[Model]) -> bool:
    big = {"LibraryFile", "PlanFile", "LogbookItem"}
    named = {field.related_model.__name__ for field in model._meta.fields if isinstance(field, ForeignKey)}
    return bool(named & big) or model.__name__ in big


@pytest.mark.parametrize(
    ("state", "fields"),
    [("missing", {"is_missing": True}), ("unhashed", {"needs_hash": True}), ("failed", {"hash_error_count": 1})],
)
def test_the_state_of_a_file_is_asked_of_the_newest(
    boss: Client, monkeypatch: pytest.MonkeyPatch, state: str, fields: dict[str, Any]
) -> None:
    for number in range(3):
        table_rows.file(number)
    LibraryFile.objects.exclude(library=table_rows.library(2)).update(**fields)
    shown = boss.get(list_page(LibraryFile), {"state": state}).context["cl"].result_list
    assert list(shown) == [table_rows.file(1), table_rows.file(0)]
    monkeypatch.setattr("frame.admin_readonly.SEARCHED_ROWS", 2)
    shown = boss.get(list_page(LibraryFile), {"state": state}).context["cl"].result_list
    assert list(shown) == [table_rows.file(1)]


# --- Finding and following --------------------------------------------------------------------------------
def found(boss: Client, model: type[Model], term: str) -> list[Any]:
    return list(boss.get(list_page(model), {"q": term}).context["cl"].result_list)


@pytest.mark.parametrize(
    "term",
    [
        "sub/ä-0.jpg",
        "/libraries/photos-0/sub/ä-0.jpg",
        "-0.jpg",
        table_rows.group_name(0),
        table_rows.group_name(0)[7:],
    ],
)
def test_a_file_is_found_by_its_path_and_by_its_content(term: str, boss: Client) -> None:
    wanted = table_rows.file(0)
    table_rows.file(1)
    assert found(boss, type(wanted), term) == [wanted]
    assert wanted in found(boss, type(wanted), str(wanted.pk))


def test_an_old_row_is_found_by_what_names_it_and_not_by_a_part(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frame.admin_readonly.SEARCHED_ROWS", 1)
    old, new = table_rows.file(0), table_rows.file(1)
    assert found(boss, type(old), "sub/") == [new]
    assert found(boss, type(old), "sub/ä-0.jpg") == [old]
    first, second = table_rows.thumbnail(2), table_rows.thumbnail(3)
    assert found(boss, type(first), "UNREAD") == [second]
    assert found(boss, type(first), table_rows.group_name(2)) == [first]


def test_the_history_of_a_row_is_found_by_its_key(boss: Client) -> None:
    event = table_rows.event(0)
    table_rows.event(1)
    assert event in found(boss, type(event), event.item.subject_id)
    assert found(boss, type(event.item), event.item.subject_id) == [event.item]


def test_rows_lead_to_one_another(boss: Client) -> None:
    item = table_rows.trash_item(0)
    request = table_rows.scan_request(1)
    thumbnail = table_rows.thumbnail(2)
    session = table_rows.session(3)
    assert request.job is not None
    assert session.job is not None
    plan = item.act.plan
    assert plan is not None
    assert plan.job is not None
    for row, others in (
        (item, [item.act, plan, item.library, item.plan_file]),
        (request, [request.job, request.library]),
        (request.job, [request, request.library]),
        (plan.job, [plan]),
        (item.act.job, [item.act]),
        (item.act, [plan, item.act.job]),
        (plan, [plan.job]),
        (thumbnail, [thumbnail.file]),
        (session, [session.job, session.library]),
        (item.plan_file, [plan, item.library, item.plan_file.file, item.plan_file.keeper]),
    ):
        html = text_of(boss, row_page(row))  # type: ignore[arg-type]
        assert [other for other in others if f'href="{row_page(other)}"' not in html] == []  # type: ignore[arg-type]
    for row, address in (
        (request.job, f"/admin/logbook/logbookevent/?item__item_type=jobs&amp;item__subject_id={request.job.pk}"),
        (plan, f"/admin/trash/act/?plan__id__exact={plan.pk}"),
        (plan, f"/admin/duplicates/planfile/?plan__id__exact={plan.pk}"),
        (item.act, f"/admin/trash/trashitem/?act__id__exact={item.act.pk}"),
        (thumbnail, "/admin/duplicates/duplicategroup/?q=blake3%3A"),
    ):
        assert f'href="{address}' in text_of(boss, row_page(row)), address
        assert boss.get(address.replace("&amp;", "&")).status_code == 200, address


def test_a_list_leads_to_the_rows_it_names(boss: Client) -> None:
    item = table_rows.trash_item(0)
    html = text_of(boss, list_page(TrashItem))
    for other in (item.act, item.act.plan, item.library):
        assert f'href="{row_page(other)}"' in html  # type: ignore[arg-type]


def test_a_row_whose_library_is_gone_is_still_listed(boss: Client) -> None:
    pair = table_rows.folder_pair(0)
    gone = pair.left_library_id
    pair.left_library.delete()
    assert f"{gone}, which is gone" in text_of(boss, list_page(type(pair)))
    assert f"{gone}, which is gone" in text_of(boss, row_page(pair))


# --- Its look ---------------------------------------------------------------------------------------------
def test_pages_stand_in_our_frame_and_in_no_other(boss: Client) -> None:
    row = table_rows.job(0)
    for address in ("/admin/", "/admin/jobs/", list_page(type(row)), row_page(row)):
        html = text_of(boss, address)
        sheets = re.findall(r'<link rel="stylesheet" href="([^"]+)"', html)
        assert [sheet.removeprefix("/static/css/") for sheet in sheets] == [
            "tokens.css", "frame.css", "components.css", "admin.css",
        ]  # fmt: skip
        assert "/static/js/theme.js" in html
        assert "admin/js/theme.js" not in html
        assert '<link rel="icon"' in html
        assert '<a class="brand" href="/">' in html
        assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=", html)


def test_our_pages_lead_to_the_admin_and_only_whom_it_lets_in(boss: Client) -> None:
    assert 'href="/admin/"' in text_of(boss, "/jobs/")
    assert 'href="/admin/"' in text_of(logged_in(Role.OPERATOR), "/jobs/")
    assert 'href="/admin/"' not in text_of(logged_in(Role.VIEWER), "/jobs/")


def test_the_icon_is_given_to_whoever_asks() -> None:
    answer = Client().get("/favicon.ico")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml")
    assert answer.content == (settings.BASE_DIR / "static" / "favicon.svg").read_bytes()
