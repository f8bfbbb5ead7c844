"""The site's own figures in Django's admin, and what the admin calls itself."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy

from dedupfs_site.models import DailySample
from frame.admin_readonly import ReadOnlyAdmin

admin.site.site_header = admin.site.site_title = "DedupFS"
admin.site.index_title = gettext_lazy("All tables")


@admin.register(DailySample)
class DailySampleAdmin(ReadOnlyAdmin[DailySample]):
    list_display = (
        "day",
        "file_count",
        "total_bytes",
        "reclaimable_bytes",
        "trashed_bytes",
        "freed_bytes",
        "updated_at",
    )
    date_hierarchy = "day"
    ordering = ("-day",)
