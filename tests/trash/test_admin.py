"""Acts in Django's admin: every table can be looked at, searched and followed, and none can be written."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from accounts.models import Role
from tests.pages import logged_in, text_of
from tests.trash.doors import allow, authorised, ended
from trash.models import Act, RemovedFolder, Switches, TrashItem

pytestmark = pytest.mark.django_db
TABLES = [Act, TrashItem, RemovedFolder, Switches]


@pytest.fixture
def act() -> Act:
    act = ended(authorised(), skipped={"old/a": "PROTECTED"})
    library = TrashItem.objects.all()[0].library
    RemovedFolder.objects.create(act=act, library=library, folder="old/empty", mode=0o755, uid=0, gid=0, mtime_ns=1)
    return act


def address(model: Any, *more: object) -> str:
    return "/".join(["/admin/trash", model._meta.model_name, *map(str, more), ""])


@pytest.mark.usefixtures("act")
@pytest.mark.parametrize("model", TABLES)
def test_a_table_can_be_looked_at_and_not_written(model: Any, operator: Client) -> None:
    boss = logged_in(Role.ADMIN)
    row = model.objects.all()[0]
    for client in (operator, boss):
        assert client.get(address(model)).status_code == 200
        assert client.get(address(model), {"q": "old"}).status_code == 200
        assert client.get(address(model, row.pk, "change")).status_code == 200
        for page in (address(model, "add"), address(model, row.pk, "delete")):
            assert client.get(page).status_code == 403
        assert client.post(address(model, row.pk, "change"), {"id": "1"}).status_code == 403


def test_rows_are_found_and_followed(act: Act, operator: Client) -> None:
    assert f"/{act.pk}/change/" in text_of(operator, f"{address(Act)}?q={act.key}")
    assert f"/{act.pk}/change/" in text_of(operator, f"{address(Act)}?q=anna&verb__exact=act&status__exact=completed")
    assert "0 acts" in text_of(operator, f"{address(Act)}?q=nobody")
    html = text_of(operator, address(Act, act.pk, "change"))
    assert f"/admin/trash/trashitem/?act__id__exact={act.pk}" in html
    assert f"/admin/duplicates/plan/{act.plan_id}/change/" in html
    assert f"/admin/jobs/job/{act.job_id}/change/" in html
    html = text_of(operator, f"{address(TrashItem)}?act__id__exact={act.pk}&status__exact=skipped")
    assert "PROTECTED" in html
    assert "old/deep/a" not in html
    assert "old/deep/a" in text_of(operator, f"{address(TrashItem)}?q=deep")
    item = TrashItem.objects.get(status="skipped")
    assert bytes(item.path_key).hex() in text_of(operator, address(TrashItem, item.pk, "change"))


def test_every_table_of_the_room_is_there() -> None:
    assert all(admin.site.is_registered(model) for model in TABLES)


def test_a_viewer_does_not_see_the_admin(viewer: Client) -> None:
    allow()
    assert viewer.get(address(Switches)).status_code in (302, 403)
