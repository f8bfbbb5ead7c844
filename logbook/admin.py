"""The logbook in Django's admin: append-only, so there is nothing to do here but read."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from database.admin_readonly import ReadOnlyAdmin, link, link_to, list_url, model_of, row_url
from logbook.models import LogbookEvent, LogbookItem


class AboutFilter(admin.SimpleListFilter):
    """Which table it is about. The choices come from the models: asking a large table for them is slow."""

    title = gettext_lazy("about")
    parameter_name = "about"
    item_type = "item_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(table, table) for table in sorted(_tables_with_a_status())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.item_type: self.value()}) if self.value() else queryset


class EventAboutFilter(AboutFilter):
    item_type = "item__item_type"


def _tables_with_a_status() -> list[str]:
    return [
        model._meta.db_table for model in apps.get_models() if model._meta.app_label != "logbook" and _has_status(model)
    ]


def _has_status(model: type[Model]) -> bool:
    try:
        return model._meta.get_field("status").concrete
    except FieldDoesNotExist:
        return False


@admin.register(LogbookItem)
class LogbookItemAdmin(ReadOnlyAdmin[LogbookItem]):
    list_display = ("id", "item_type", "subject", "title", "status", "updated_at", "events")
    list_filter = (AboutFilter,)
    search_fields = ("subject_id__exact",)
    search_help_text = gettext_lazy("The key of the row that the item is about")
    ordering = ("-id",)
    links = ("subject", "events")

    @admin.display(description=gettext_lazy("row"))
    def subject(self, item: LogbookItem) -> SafeString | str:
        """The row itself, where its table is one of ours."""
        model = model_of(item.item_type)
        return item.subject_id if model is None else link(row_url(model, item.subject_id), item.subject_id)

    @admin.display(description=gettext_lazy("events"))
    def events(self, item: LogbookItem) -> SafeString:
        return link(list_url("logbook", "logbookevent", item__id__exact=item.pk), _("What happened"))


@admin.register(LogbookEvent)
class LogbookEventAdmin(ReadOnlyAdmin[LogbookEvent]):
    list_display = (
        "id",
        "created_at",
        "of_item",
        "event_type",
        "status_from",
        "status_to",
        "actor",
        "worker_id",
        "error_code",
    )
    list_filter = (EventAboutFilter,)
    list_select_related = ("item",)
    search_fields = ("event_type__exact", "actor__exact", "worker_id__startswith", "error_code__exact")
    search_help_text = gettext_lazy("An event's type, who asked, the beginning of a worker's id, or an error code")
    ordering = ("-id",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """The history of one row is found by its table and key (`database.admin_readonly.history_url`)."""
        if lookup in ("item__item_type", "item__subject_id"):
            return True
        return super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]

    @admin.display(description=gettext_lazy("item"))
    def of_item(self, event: LogbookEvent) -> SafeString | str:
        return link_to(event.item)
