"""Django's admin as a window: every table can be looked at there, and none can be written by hand.

What may be done about a row is an action that calls the same verb as the pages do, for admins only.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlencode

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.options import ShowFacets
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import SuspiciousOperation
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

M = TypeVar("M", bound=Model)

if TYPE_CHECKING:
    Tables = admin.ModelAdmin[M]
else:
    # Django's class takes its type only in the stubs.
    class Tables(admin.ModelAdmin, Generic[M]):
        pass


#: Counting ten million rows takes seconds, and nobody turns to page 201: search or filter instead.
MOST_COUNTED = 10_000
NOTHING = "–"  # noqa: RUF001  an en dash, as Django's admin shows emptiness


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than it shows."""

    object_list: QuerySet[Model]

    @cached_property
    def count(self) -> int:
        return self.object_list.order_by()[:MOST_COUNTED].count()


class OrderedChangeList(ChangeList):
    """Keeps the order of the admin class, whatever the address asks for: any other would sort the whole table."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Model]) -> list[Any]:
        return list(self.model_admin.get_ordering(request)) or ["-pk"]


class ReadOnlyAdmin(Tables[M]):
    """Look, search and follow; nobody adds, changes or deletes here, whatever their role."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    sortable_by = ()
    empty_value_display = NOTHING
    #: Shown on a row's own page beside its columns.
    links: tuple[str, ...] = ()
    #: Columns that a method shows in a readable form: column → method.
    shown_as: dict[str, str] = {}

    def get_fields(self, request: HttpRequest, obj: M | None = None) -> list[str]:  # type: ignore[override]
        key_first = sorted(self.model._meta.concrete_fields, key=lambda field: not field.primary_key)
        columns = [field.name for field in key_first]
        return [self.shown_as.get(name, name) for name in columns] + list(self.links)

    def get_readonly_fields(self, request: HttpRequest, obj: M | None = None) -> list[str]:
        return self.get_fields(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """What `@admin.action(permissions=["decide"])` asks for."""
        return bool(request.user.is_superuser)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return OrderedChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> M | None:
        """PostgreSQL fails on a NUL instead of finding nothing."""
        return None if "\0" in unquote(object_id) else super().get_object(request, object_id, from_field)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        sent = (value for data in (request.GET, request.POST) for _, values in data.lists() for value in values)
        if any("\0" in value for value in sent if isinstance(value, str)):
            raise SuspiciousOperation("a NUL character in a filter or a selection")
        return super().changelist_view(request, extra_context)

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """A row's history is in the logbook; Django's own would only tell of changes made here."""
        return HttpResponseRedirect(history_url(self.model._meta.db_table, unquote(object_id)))


def history_url(table: str, key: Any) -> str:
    return list_url("logbook", "logbookevent", item__item_type=table, item__subject_id=key)


def list_url(app: str, model: str, **filters: Any) -> str:
    return f"{reverse(f'admin:{app}_{model}_changelist')}?{urlencode(filters)}"


def row_url(row_model: type[Model], key: Any) -> str:
    return reverse(f"admin:{row_model._meta.app_label}_{row_model._meta.model_name}_change", args=[quote(key)])


def link(url: str, text: Any) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text)


def link_to(row: Model | None) -> SafeString | str:
    """A link to another row's page, in its own words."""
    return NOTHING if row is None else link(row_url(type(row), row.pk), row)


def model_of(table: str) -> type[Model] | None:
    """The model of a table; the logbook knows rows only by their table's name."""
    return next((model for model in apps.get_models() if model._meta.db_table == table), None)
