"""How a column looks in Django's admin: as on our own pages, by what kind of column it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.contrib import admin
from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from frame.admin_links import NOTHING, link_to
from frame.templatetags.frame import pill
from frame.templatetags.human import as_json, at, count, duration, size

Cell = Callable[[Any], SafeString | str]
STATES = {"status", "mount"}
PAST_STATES = {"status_from", "status_to"}
#: Parts of a column's name that say what its numbers are.
COUNTED = {"count", "files", "items", "paths", "directories"}


@cache
def cell_of(field: models.Field[Any, Any]) -> Cell | None:
    """What shows this column of a row; None where Django's own way is good. The same one whenever it is asked for."""
    if isinstance(field, models.ForeignKey):
        return _named(field, lambda row: _linked(field, row))
    show = _showing(field)
    if show is None:
        return None
    return _named(field, lambda row: _shown(show, getattr(row, field.attname)))


def _named(field: models.Field[Any, Any], cell: Cell) -> Cell:
    """Django's admin takes the name for the cell's class."""
    cell.__name__ = field.name
    return admin.display(description=field.verbose_name)(cell)


def _shown(show: Callable[[Any], Any], value: Any) -> SafeString | str:
    return NOTHING if value is None or value == "" else show(value)


def _linked(field: models.ForeignKey[Any, Any], row: models.Model) -> SafeString | str:
    """The other row, in its own words. One that no constraint holds may be gone: then its key is all there is."""
    try:
        return link_to(getattr(row, field.name))
    except ObjectDoesNotExist:
        return _("%(key)s, which is gone") % {"key": getattr(row, field.attname)}


def _showing(field: models.Field[Any, Any]) -> Callable[[Any], SafeString | str] | None:
    if field.name in STATES:
        return pill
    if field.name in PAST_STATES:
        return lambda status: pill(status, "past")
    if isinstance(field, models.BinaryField):
        return lambda digest: _code(bytes(digest).hex())
    return next((show for kind, show in _BY_KIND.items() if isinstance(field, kind)), None) or _by_name(field)


def _by_name(field: models.Field[Any, Any]) -> Callable[[Any], SafeString | str] | None:
    parts = set(field.name.split("_"))
    if isinstance(field, models.FloatField):
        return duration if "seconds" in parts else "{:.0%}".format
    if isinstance(field, models.IntegerField) and "bytes" in parts:
        return size
    if isinstance(field, models.IntegerField) and parts & COUNTED:
        return count
    return _code if field.name.endswith("_code") else None


def _code(text: str) -> SafeString:
    return format_html('<span class="code" title="{}">{}</span>', text, text)


def _pretty(value: Any) -> SafeString:
    return format_html('<pre class="raw">{}</pre>', as_json(value))


_BY_KIND: dict[type[Any], Callable[[Any], SafeString | str]] = {
    models.BooleanField: lambda is_so: _("yes") if is_so else _("no"),
    models.DateTimeField: at,
    models.JSONField: _pretty,
}
