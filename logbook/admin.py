"""The logbook in Django's admin: append-only, so there is nothing to do here but read."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from frame.admin_links import link_by_key, model_of, rows_link
from frame.admin_readonly import ReadOnlyAdmin
from logbook.models import LogbookEvent, LogbookItem


class AboutFilter(admin.SimpleListFilter):
    """Which table it is about. The choices come from the models: asking a large table for them is slow."""

    title = gettext_lazy("about")
    parameter_name = "about"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(table, table) for table in sorted(_tables_with_a_status())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(item_type=self.value()) if self.value() else queryset


def _tables_with_a_status() -> list[str]:
    return [
        model._meta.db_table for model in apps.get_models() if model._meta.app_label != "logbook" and _has_status(model)
    ]


def _has_status(model: type[Model]) -> bool:
    try:
        return model._meta.get_field("status").concrete
    except FieldDoesNotExist:
        return False


def _about(key: str) -> Q:
    """Items of the row with this key, in whichever table: so the unique index is asked, which begins with the table."""
    return Q(item_type__in=[model._meta.db_table for model in apps.get_models()], subject_id=key)


@admin.register(LogbookItem)
class LogbookItemAdmin(ReadOnlyAdmin[LogbookItem]):
    list_display = ("id", "item_type", "subject", "title", "status", "updated_at", "events")
    list_filter = (AboutFilter,)
    search_fields = ("title",)
    search_help_text = gettext_lazy("The whole key of the row it is about; part of a title, among the newest")
    is_large = True
    ordering = ("-id",)
    links = ("subject", "events")
    events = rows_link("logbook.logbookevent", "item", gettext_lazy("events"), gettext_lazy("What happened"))

    def meant(self, term: str) -> Q:
        return super().meant(term) | _about(term)

    @admin.display(description=gettext_lazy("row"))
    def subject(self, item: LogbookItem) -> SafeString | str:
        """The row itself, where its table is one of ours."""
        model = model_of(item.item_type)
        return item.subject_id if model is None else link_by_key(model, item.subject_id)


@admin.register(LogbookEvent)
class LogbookEventAdmin(ReadOnlyAdmin[LogbookEvent]):
    list_display = (
        "id",
        "created_at",
        "item",
        "event_type",
        "status_from",
        "status_to",
        "actor",
        "worker_id",
        "error_code",
    )
    list_filter = (AboutFilter,)
    search_fields = ("event_type", "actor", "worker_id", "error_code")
    search_help_text = gettext_lazy(
        "The whole key of a row; part of a type, of who asked, of a worker's id or of an error code, among the newest"
    )
    is_large = True
    ordering = ("-id",)

    def meant(self, term: str) -> Q:
        """Looked up first: the events of an item have an index, and a join would have none."""
        items = LogbookItem.objects.filter(_about(term)).values_list("pk", flat=True)
        return super().meant(term) | Q(item__in=list(items))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """The history of one row is found by its table and key (`frame.admin_links.history_url`)."""
        if lookup in ("item__item_type", "item__subject_id"):
            return True
        return super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]
