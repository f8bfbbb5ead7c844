"""Links between the tables of Django's admin: to a row, to the rows that name it, to its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as Words

NOTHING = "–"  # noqa: RUF001  an en dash, as Django's admin shows emptiness
Column = Callable[[Any, Any], SafeString | str]


def link(url: str, text: Any) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text)


def link_to(row: Model | None, text: Any = None) -> SafeString | str:
    """A link to another row's page, in its own words where no others are given."""
    return NOTHING if row is None else link_by_key(type(row), row.pk, row if text is None else text)


def link_by_key(model: type[Model], key: Any, text: Any = None) -> SafeString | str:
    """A link to a row that is not looked up: its page says so when it is gone."""
    return NOTHING if key is None else link(row_url(model, key), key if text is None else text)


def rows_link(model: str, field: str, description: Words, words: Words) -> Column:
    """A column that leads to all rows of another table that name this row in `field`; the table as `app.model`."""

    @admin.display(description=description)
    def column(_admin: Any, row: Model) -> SafeString:
        return link(list_url(model, **{f"{field}__id__exact": row.pk}), words)

    return column


def row_url(model: type[Model], key: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[quote(key)])


def list_url(model: str, **filters: Any) -> str:
    return f"{reverse('admin:{}_{}_changelist'.format(*model.split('.')))}?{urlencode(filters)}"


def history_url(table: str, key: Any) -> str:
    return list_url("logbook.logbookevent", item__item_type=table, item__subject_id=key)


def model_of(table: str) -> type[Model] | None:
    """The model of a table; the logbook knows rows only by their table's name."""
    return next((model for model in apps.get_models() if model._meta.db_table == table), None)
