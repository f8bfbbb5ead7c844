"""The tables of background work in Django's admin, with what may be decided about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from frame.admin_links import NOTHING, link, link_to, list_url
from frame.admin_readonly import ReadOnlyAdmin
from jobs import deciding
from jobs.errors import Refused
from jobs.lease import LeasedModel, LeasedQuerySet
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WalSize, WorkerHeartbeat
from jobs.recovering import recover

L = TypeVar("L", bound=LeasedModel)


class LeasedAdmin(ReadOnlyAdmin[L]):
    """A table whose rows are held by leases: shows the holder, and takes back what lost it."""

    actions: tuple[str, ...] = ("recover",)
    links: tuple[str, ...] = ("history",)
    shown_as = {"worker_id": "worker"}

    @admin.action(permissions=["decide"], description=gettext_lazy("Take back rows whose lease ran out"))
    def recover(self, request: HttpRequest, queryset: QuerySet[L]) -> None:
        keys = list(queryset.values_list("pk", flat=True))
        rows = self.model._default_manager.filter(pk__in=keys)
        assert isinstance(rows, LeasedQuerySet)
        count = recover(rows, actor=request.user.get_username())
        words = ngettext("%(count)d row was taken back.", "%(count)d rows were taken back.", count)
        self.message_user(request, words % {"count": count}, messages.SUCCESS if count else messages.INFO)
        if len(keys) > count:
            left = ngettext(
                "%(count)d row was left as it is: no lease of it ran out.",
                "%(count)d rows were left as they are: no lease of them ran out.",
                len(keys) - count,
            )
            self.message_user(request, left % {"count": len(keys) - count}, messages.INFO)

    @admin.display(description=gettext_lazy("worker"))
    def worker(self, row: L) -> SafeString | str:
        """A claim is named `host:pid:random`; the process behind it is `host:pid`."""
        if not row.worker_id:
            return NOTHING
        process = row.worker_id.rpartition(":")[0] or row.worker_id
        return link(list_url("jobs.workerheartbeat", q=process), row.worker_id)


@admin.register(Job)
class JobAdmin(LeasedAdmin[Job]):
    actions = ("cancel", "reset", "recover")
    list_display = (
        "id",
        "kind",
        "status",
        "dry_run",
        "progress",
        "belongs_to",
        "worker_id",
        "attempts",
        "error_code",
        "created_at",
    )
    list_filter = ("kind", "status", "dry_run")
    search_fields = ("worker_id", "error_code", "error_message")
    search_help_text = gettext_lazy("A job's id, or part of a worker's id, an error code or an error's words")
    ordering = ("-created_at", "-id")
    # Served by ix_jobs_created, and jobs are few.
    date_hierarchy = "created_at"
    links = ("belongs_to", "history")

    @property
    def joins(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"{name}__library" if _has_library(model) else name for name, model in _owners().items())

    @admin.display(description=gettext_lazy("belongs to"))
    def belongs_to(self, job: Job) -> SafeString | str:
        """What it is carried out for, in whichever room: a scan request with its library, a plan, an act."""
        found = []
        for name, model in _owners().items():
            owner = getattr(job, name, None)
            if owner is not None:
                # A key that is a number is short enough to be said.
                number = f" {owner.pk}" if isinstance(owner.pk, int) else ""
                found.append(link_to(owner, f"{model._meta.verbose_name}{number}"))
                found += [link_to(owner.library)] if _has_library(model) else []
        return format_html_join(", ", "{}", ((each,) for each in found)) or NOTHING

    @admin.action(permissions=["decide"], description=gettext_lazy("Cancel the selected jobs"))
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._decide(request, queryset, deciding.cancel, _("cancelled"))

    @admin.action(permissions=["decide"], description=gettext_lazy("Put the selected jobs back in the queue"))
    def reset(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._decide(request, queryset, deciding.reset, _("put back in the queue"))

    def _decide(self, request: HttpRequest, queryset: QuerySet[Job], verb: Callable[..., Job], done: str) -> None:
        """Each row for itself: what is refused is said with its reason and stops no other."""
        for key in list(queryset.values_list("pk", flat=True)):
            try:
                verb(key, actor=request.user.get_username())
            except Refused as refusal:
                self.message_user(request, f"{key}: {refusal}", messages.WARNING)
            else:
                self.message_user(request, f"{key}: {done}.", messages.SUCCESS)


def _owners() -> dict[str, type[Model]]:
    """Tables of the rooms above that have one job for each row: the name on a job → the table."""
    return {
        relation.get_accessor_name() or "": relation.related_model
        for relation in Job._meta.related_objects
        if relation.one_to_one
    }


def _has_library(model: Any) -> bool:
    return any(field.name == "library" for field in model._meta.concrete_fields)


@admin.register(WalMaintenanceJob)
class WalMaintenanceJobAdmin(LeasedAdmin[WalMaintenanceJob]):
    list_display = (
        "id",
        "requested_mode",
        "status",
        "requested_by",
        "execute_after",
        "retry_count",
        "checkpointed_frames",
        "worker_id",
        "error_code",
        "created_at",
    )
    list_filter = ("status", "requested_mode")
    search_fields = ("requested_by", "reason", "worker_id", "error_code")
    search_help_text = gettext_lazy("Part of who asked, of the reason, of a worker's id, or of an error code")
    ordering = ("-id",)


@admin.register(WalSize)
class WalSizeAdmin(ReadOnlyAdmin[WalSize]):
    list_display = ("id", "seen_at", "bytes_size")
    ordering = ("-id",)


@admin.register(IoRateLimit)
class IoRateLimitAdmin(ReadOnlyAdmin[IoRateLimit]):
    list_display = ("bucket_key", "next_available_at_ms", "updated_at")
    search_fields = ("bucket_key",)
    search_help_text = gettext_lazy("Part of a budget's name")
    ordering = ("bucket_key",)


@admin.register(WorkerHeartbeat)
class WorkerHeartbeatAdmin(ReadOnlyAdmin[WorkerHeartbeat]):
    list_display = ("worker_id", "hostname", "pid", "doing", "started_at", "last_seen_at", "stopped_at", "claims")
    list_filter = (("stopped_at", admin.EmptyFieldListFilter),)
    search_fields = ("worker_id", "hostname", "doing")
    search_help_text = gettext_lazy("Part of its id, of its host, or of what it does")
    ordering = ("-last_seen_at", "-worker_id")
    links = ("claims",)

    @admin.display(description=gettext_lazy("jobs"))
    def claims(self, worker: WorkerHeartbeat) -> SafeString:
        return link(list_url("jobs.job", q=worker.worker_id), _("Jobs that it held"))
