"""Acts and what became of their files in Django's admin; looked at, never written here."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from duplicates.models import Plan
from frame.admin_links import link_by_key, rows_link
from frame.admin_readonly import ReadOnlyAdmin
from trash.models import Act, RemovedFolder, Switches, TrashItem


@admin.register(Act)
class ActAdmin(ReadOnlyAdmin[Act]):
    list_display = (
        "id",
        "verb",
        "status",
        "plan",
        "job",
        "files",
        "authorised_by",
        "authorised_at",
        "is_paused",
        "file_count",
        "done_count",
        "skipped_count",
        "trashed_count",
    )
    list_filter = ("verb", "status", "is_paused")
    search_fields = ("key", "authorised_by", "note", "job__id__exact")
    search_help_text = gettext_lazy("Its number or its job's id, part of its key, of who authorised it or of its note")
    ordering = ("-id",)
    links = ("files", "taken", "folders", "history")
    files = rows_link("trash.trashitem", "act", gettext_lazy("files"), gettext_lazy("Its files"))
    taken = rows_link(
        "trash.trashitem", "left_by", gettext_lazy("taken out"), gettext_lazy("What it took out of a trash")
    )
    folders = rows_link(
        "trash.removedfolder", "act", gettext_lazy("folders"), gettext_lazy("Folders that went with it")
    )


@admin.register(TrashItem)
class TrashItemAdmin(ReadOnlyAdmin[TrashItem]):
    list_display = (
        "id",
        "status",
        "reason_code",
        "act",
        "plan",
        "library",
        "path",
        "is_last_copy",
        "acted_at",
        "left_by",
        "left_at",
    )
    list_filter = ("status",)
    joins = ("plan_file",)
    search_fields = ("plan_file__relative_path", "reason_code", "reason")
    search_help_text = gettext_lazy(
        "Its number or its act's whole key; part of its path or of the reason, among the newest"
    )
    is_large = True
    ordering = ("-id",)
    links = ("path", "plan", "history")

    def meant(self, term: str) -> Q:
        """An act is looked up first: its items have an index, and a join would have none."""
        acts = Act.objects.filter(key=term).values_list("pk", flat=True)
        return super().meant(term) | Q(act__in=list(acts))

    @admin.display(description=gettext_lazy("path"))
    def path(self, item: TrashItem) -> str:
        return item.plan_file.relative_path

    @admin.display(description=gettext_lazy("plan"))
    def plan(self, item: TrashItem) -> SafeString | str:
        key = item.plan_file.plan_id
        return link_by_key(Plan, key, _("plan %(number)s") % {"number": key})


@admin.register(RemovedFolder)
class RemovedFolderAdmin(ReadOnlyAdmin[RemovedFolder]):
    list_display = ("id", "act", "library", "folder", "is_back")
    list_filter = ("is_back",)
    search_fields = ("folder", "act__key__exact")
    search_help_text = gettext_lazy("Part of the folder's path, or its act's whole key")
    ordering = ("-id",)


@admin.register(Switches)
class SwitchesAdmin(ReadOnlyAdmin[Switches]):
    list_display = ("id", "is_acting_allowed", "is_removing_allowed", "empty_after_days", "updated_by", "updated_at")
    links = ("history",)
