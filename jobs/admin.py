"""The tables of background work in Django's admin, with what may be decided about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from database.admin_readonly import NOTHING, ReadOnlyAdmin, history_url, link, list_url
from jobs import deciding
from jobs.errors import Refused
from jobs.lease import LeasedModel, LeasedQuerySet
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WorkerHeartbeat
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

    @admin.display(description=gettext_lazy("worker"), empty_value=NOTHING)
    def worker(self, row: L) -> SafeString | None:
        """A claim is named `host:pid:random`; the process behind it is `host:pid`."""
        if not row.worker_id:
            return None
        process = row.worker_id.rpartition(":")[0] or row.worker_id
        return link(list_url("jobs", "workerheartbeat", q=process), row.worker_id)

    @admin.display(description=gettext_lazy("history"))
    def history(self, row: L) -> SafeString:
        return link(history_url(row._meta.db_table, row.pk), _("What happened to it"))


@admin.register(Job)
class JobAdmin(LeasedAdmin[Job]):
    actions = ("cancel", "reset", "recover")
    list_display = (
        "id",
        "kind",
        "status",
        "dry_run",
        "share",
        "worker",
        "attempts",
        "error_code",
        "created_at",
    )
    list_filter = ("kind", "status", "dry_run")
    search_fields = ("id__exact", "worker_id__startswith", "error_code__exact")
    search_help_text = gettext_lazy("A job's id, the beginning of a worker's id, or an error code")
    ordering = ("-created_at", "-id")

    @admin.display(description=gettext_lazy("progress"))
    def share(self, job: Job) -> str:
        return f"{job.progress:.0%}"

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
        "error_code",
        "created_at",
    )
    list_filter = ("status", "requested_mode")
    search_fields = ("requested_by__exact", "worker_id__startswith", "error_code__exact")
    ordering = ("-id",)


@admin.register(IoRateLimit)
class IoRateLimitAdmin(ReadOnlyAdmin[IoRateLimit]):
    list_display = ("bucket_key", "next_available_at_ms", "updated_at")
    search_fields = ("bucket_key",)
    ordering = ("bucket_key",)


@admin.register(WorkerHeartbeat)
class WorkerHeartbeatAdmin(ReadOnlyAdmin[WorkerHeartbeat]):
    list_display = ("worker_id", "hostname", "pid", "doing", "started_at", "last_seen_at", "stopped_at")
    list_filter = (("stopped_at", admin.EmptyFieldListFilter),)
    search_fields = ("worker_id__startswith", "hostname__startswith")
    ordering = ("-last_seen_at", "-worker_id")
    links = ("claims",)

    @admin.display(description=gettext_lazy("jobs"))
    def claims(self, worker: WorkerHeartbeat) -> SafeString:
        return link(list_url("jobs", "job", q=worker.worker_id), _("Jobs that it held"))
