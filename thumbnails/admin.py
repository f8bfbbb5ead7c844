"""Thumbnails and their clean-up in Django's admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frame.admin_links import NOTHING, link, list_url
from jobs.admin import LeasedAdmin
from thumbnails.models import Thumbnail, ThumbnailCleanupJob


class OfGroup:
    """Rows that name a group by its key."""

    @admin.display(description=gettext_lazy("group"))
    def group(self, row: Thumbnail | ThumbnailCleanupJob) -> SafeString | str:
        return link(list_url("duplicates.duplicategroup", q=row.group_key), row.group_key) if row.group_key else NOTHING


@admin.register(Thumbnail)
class ThumbnailAdmin(OfGroup, LeasedAdmin[Thumbnail]):
    list_display = (
        "id",
        "thumb_key",
        "status",
        "media_type",
        "file",
        "group_key",
        "max_dimension",
        "error_code",
        "error_count",
        "created_at",
    )
    list_filter = ("status", "media_type", "format")
    search_fields = ("thumb_key__exact", "group_key__exact", "file__relative_path", "error_code", "worker_id")
    search_help_text = gettext_lazy(
        "A whole thumbnail key or group key; part of a path, an error code or a worker's id, among the newest"
    )
    is_large = True
    ordering = ("-id",)
    links = ("clean_up", "history")
    shown_as = {"worker_id": "worker", "group_key": "group"}

    @admin.display(description=gettext_lazy("clean-up"))
    def clean_up(self, thumbnail: Thumbnail) -> SafeString | str:
        if not thumbnail.group_key:
            return NOTHING
        url = list_url("thumbnails.thumbnailcleanupjob", q=thumbnail.group_key)
        return link(url, _("Clean-up of its group"))


@admin.register(ThumbnailCleanupJob)
class ThumbnailCleanupJobAdmin(OfGroup, LeasedAdmin[ThumbnailCleanupJob]):
    list_display = ("id", "group_key", "status", "execute_after", "worker_id", "error_code", "finished_at")
    list_filter = ("status",)
    search_fields = ("group_key__exact", "worker_id", "error_code")
    search_help_text = gettext_lazy("A whole group key; part of a worker's id or an error code, among the newest")
    is_large = True
    ordering = ("-id",)
    links = ("members", "history")
    shown_as = {"worker_id": "worker", "group_key": "group"}

    @admin.display(description=gettext_lazy("thumbnails"))
    def members(self, job: ThumbnailCleanupJob) -> SafeString:
        return link(list_url("thumbnails.thumbnail", q=job.group_key), _("Thumbnails of this group"))
