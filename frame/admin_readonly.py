"""Django's admin as a window: every table can be looked at there, and none can be written by hand.

What may be done about a row is an action that calls the same verb as the pages do, for admins only.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django import forms
from django.contrib import admin
from django.contrib.admin.options import ShowFacets
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import FieldDoesNotExist, SuspiciousOperation
from django.core.paginator import Paginator
from django.db.models import AutoField, CharField, ForeignKey, IntegerField, Max, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frame.admin_cells import Cell, cell_of
from frame.admin_links import NOTHING, history_url, link

M = TypeVar("M", bound=Model)

if TYPE_CHECKING:
    Tables = admin.ModelAdmin[M]
else:
    # Django's class takes its type only in the stubs.
    class Tables(admin.ModelAdmin, Generic[M]):
        pass


#: Counting ten million rows takes seconds, and nobody turns to page 201: search or filter instead.
MOST_COUNTED = 10_000
#: What no index serves is looked for among so many rows of a large table, the newest.
SEARCHED_ROWS = 100_000
LARGEST_KEY = 2**63 - 1
#: The search field of a table that is searched by nothing but `meant`.
KEY_ALONE = "pk"


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than it shows."""

    object_list: QuerySet[Model]

    @cached_property
    def count(self) -> int:
        return self.object_list.order_by()[:MOST_COUNTED].count()

    @property
    def is_cut(self) -> bool:
        return self.count >= MOST_COUNTED


class OrderedChangeList(ChangeList):
    """Keeps the order of the admin class, whatever the address asks for: any other would sort the whole table."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Model]) -> list[Any]:
        return list(self.model_admin.get_ordering(request)) or ["-pk"]


class ReadOnlyAdmin(Tables[M]):
    """Look, search and follow; nobody adds, changes or deletes here, whatever their role.

    Columns are shown by `frame.admin_cells`: other rows as links, states as pills. Whatever `list_display` names of
    other tables is fetched together with the page, so that the number of queries does not grow with the rows.
    """

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    sortable_by = ()
    empty_value_display = NOTHING
    #: It may have millions of rows. Then a search field that ends in `__exact` must have an index, and a part of the
    #: others is looked for among the newest rows only.
    is_large = False
    #: Shown on a row's own page beside its columns.
    links: tuple[str, ...] = ()
    #: Columns that a method shows in a readable form: column → method.
    shown_as: dict[str, str] = {}
    #: Other tables that methods in `list_display` read, beside those its columns name.
    joins: tuple[str, ...] = ()

    # --- What is shown ------------------------------------------------------------------------------------
    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """The first column leads to the row itself, so it can't be a link to another one."""
        first, *others = super().get_list_display(request)
        return [first, *(self.cell(name) for name in others)]

    def get_fields(self, request: HttpRequest, obj: M | None = None) -> list[Any]:
        key_first = sorted(self.model._meta.concrete_fields, key=lambda field: not field.primary_key)
        return [self.cell(field.name) for field in key_first if field.name not in self.hidden()]

    def get_fieldsets(self, request: HttpRequest, obj: M | None = None) -> list[tuple[Any, Any]]:
        related = [(gettext_lazy("Related"), {"fields": list(self.links)})] if self.links else []
        return [(None, {"fields": self.get_fields(request, obj)}), *related]

    def get_readonly_fields(self, request: HttpRequest, obj: M | None = None) -> list[Any]:
        return [*self.get_fields(request, obj), *self.links]

    def hidden(self) -> Iterable[str]:
        """Columns that nobody is shown."""
        return ()

    def cell(self, name: Any) -> Cell | str:
        name = self.shown_as.get(name, name)
        try:
            return cell_of(self.model._meta.get_field(name)) or name
        except FieldDoesNotExist:
            return str(name)

    @admin.display(description=gettext_lazy("history"))
    def history(self, row: M) -> SafeString:
        return link(history_url(row._meta.db_table, row.pk), _("What happened to it"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[M]:
        """A join would leave out rows whose other row is gone, so what no constraint holds is fetched apart."""
        others = [field for field in self.model._meta.concrete_fields if isinstance(field, ForeignKey)]
        named = [field for field in others if field.name in self.list_display and field.name not in self.shown_as]
        loose = [field.name for field in named if not _is_held(field)]
        joins = [*self.joins, *(field.name for field in named if field.name not in loose)]
        rows = super().get_queryset(request)
        rows = rows.select_related(*joins) if joins else rows
        return rows.prefetch_related(*loose)

    @property
    def media(self) -> forms.Media:
        """Nothing is filled in here, so of Django's scripts the one for choosing rows is enough."""
        return forms.Media(js=["admin/js/actions.js"])

    # --- Searching ----------------------------------------------------------------------------------------
    def get_search_results(self, request: HttpRequest, queryset: QuerySet[M], search_term: str) -> tuple[Any, bool]:
        """By the row's key and by `search_fields`; all that was typed as one piece, since paths have spaces in them."""
        term = search_term.strip()
        if not term:
            return queryset, False
        fields = {str(field) for field in self.get_search_fields(request)} - {KEY_ALONE}
        exact = {field for field in fields if field.endswith("__exact")}
        meant = self.meant(term)
        for field in exact:
            meant |= Q(**{field: term})
        part = Q(pk__in=[])
        for field in fields - exact:
            part |= Q(**{f"{field}__icontains": term})
        if not self.is_large:
            return queryset.filter(meant | part), False
        # Each half by an index of its own; one condition for both would be asked of every row.
        rows = self.model._default_manager.all().order_by()
        parts = rows.filter(part, newest(self.model)).values("pk")
        return queryset.filter(pk__in=rows.filter(meant).values("pk").union(parts)), False

    def meant(self, term: str) -> Q:
        """Rows that were named: by their key, or by whatever else a table has an index for."""
        key = self.model._meta.pk
        while isinstance(key, ForeignKey):
            key = key.target_field
        if isinstance(key, CharField):
            return Q(pk=term)
        is_number = isinstance(key, IntegerField | AutoField) and term.isascii() and term.isdecimal()
        return Q(pk=term) if is_number and int(term) <= LARGEST_KEY else Q(pk__in=[])

    # --- What may be done ---------------------------------------------------------------------------------
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """What `@admin.action(permissions=["decide"])` asks for."""
        return bool(request.user.is_superuser)

    # --- Addresses ----------------------------------------------------------------------------------------
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


def newest(model: type[Model]) -> Q:
    """The rows of a large table that are looked through where no index helps."""
    last = model._default_manager.aggregate(last=Max("pk"))["last"] or 0
    return Q(pk__gt=last - SEARCHED_ROWS)


def _is_held(field: ForeignKey[Any, Any]) -> bool:
    """Whether the database sees to it that the other row is there."""
    return bool(field.db_constraint)  # type: ignore[attr-defined]  # the stubs don't know it
