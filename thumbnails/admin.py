"""Thumbnails and their clean-up in Django's admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from database.admin_readonly import NOTHING, link, link_to, list_url
from jobs.admin import LeasedAdmin
from thumbnails.models import Thumbnail, ThumbnailCleanupJob


@admin.register(Thumbnail)
class ThumbnailAdmin(LeasedAdmin[Thumbnail]):
    list_display = (
        "id",
        "thumb_key",
        "status",
        "media_type",
        "of_file",
        "max_dimension",
        "error_code",
        "error_count",
        "created_at",
    )
    list_filter = ("status", "media_type", "format")
    list_select_related = ("file",)
    search_fields = ("thumb_key__exact", "group_key__exact")
    search_help_text = gettext_lazy("A whole thumbnail key or a whole group key")
    ordering = ("-id",)
    links = ("history", "clean_up")

    @admin.display(description=gettext_lazy("file"))
    def of_file(self, thumbnail: Thumbnail) -> SafeString | str:
        return link_to(thumbnail.file)

    @admin.display(description=gettext_lazy("clean-up"), empty_value=NOTHING)
    def clean_up(self, thumbnail: Thumbnail) -> SafeString | None:
        if not thumbnail.group_key:
            return None
        url = list_url("thumbnails", "thumbnailcleanupjob", q=thumbnail.group_key)
        return link(url, _("Clean-up of its group"))


@admin.register(ThumbnailCleanupJob)
class ThumbnailCleanupJobAdmin(LeasedAdmin[ThumbnailCleanupJob]):
    list_display = ("id", "group_key", "status", "execute_after", "worker", "error_code", "finished_at")
    list_filter = ("status",)
    search_fields = ("group_key__exact", "worker_id__startswith", "error_code__exact")
    search_help_text = gettext_lazy("A whole group key, the beginning of a worker's id, or an error code")
    ordering = ("-id",)
    links = ("history", "members")

    @admin.display(description=gettext_lazy("thumbnails"))
    def members(self, job: ThumbnailCleanupJob) -> SafeString:
        return link(list_url("thumbnails", "thumbnail", q=job.group_key), _("Thumbnails of this group"))
