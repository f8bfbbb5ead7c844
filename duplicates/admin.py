"""Groups, keep rules, plans and folders that share content in Django's admin; looked at, never written here."""

from __future__ import annotations

from typing import TypeVar

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from database.admin_readonly import NOTHING, ReadOnlyAdmin, history_url, link, link_to, list_url
from duplicates.ignoring import ITEM
from duplicates.models import (
    DuplicateGroup,
    FolderPair,
    FolderSearch,
    GroupChange,
    IgnoredGroup,
    Plan,
    PlanFile,
    PlanFolder,
    RuleSet,
    Summary,
    group_key,
)
from jobs.admin import LeasedAdmin

D = TypeVar("D", DuplicateGroup, IgnoredGroup, PlanFile)


class DigestAdmin(ReadOnlyAdmin[D]):
    """A table whose rows are about a content: its digest is shown as people know it."""

    shown_as = {"content_hash": "digest"}
    links = ("group_history",)

    @admin.display(description=gettext_lazy("content hash"))
    def digest(self, row: D) -> str:
        return bytes(row.content_hash).hex()

    @admin.display(description=gettext_lazy("history"))
    def group_history(self, row: D) -> SafeString:
        key = group_key(row.hash_algorithm, bytes(row.content_hash))
        return link(history_url(ITEM, key), _("What was said about this content"))


@admin.register(DuplicateGroup)
class DuplicateGroupAdmin(DigestAdmin[DuplicateGroup]):
    list_display = (
        "digest",
        "hash_algorithm",
        "file_count",
        "size_bytes",
        "total_size_bytes",
        "inode_count",
        "reclaimable_bytes",
        "library_ids",
    )
    list_filter = ("hash_algorithm", "spans_libraries")
    # The index goes over the negated figures.
    ordering = ("by_files", "by_total", "hash_algorithm", "content_hash")


@admin.register(GroupChange)
class GroupChangeAdmin(ReadOnlyAdmin[GroupChange]):
    list_display = ("id", "file_id", "hash_algorithm", "before")
    shown_as = {"content_hash": "before"}
    ordering = ("-id",)

    @admin.display(description=gettext_lazy("content hash before"), empty_value=NOTHING)
    def before(self, change: GroupChange) -> str | None:
        return None if change.content_hash is None else bytes(change.content_hash).hex()


@admin.register(Summary)
class SummaryAdmin(ReadOnlyAdmin[Summary]):
    list_display = ("id", "counted_file_id", "is_stale", "updated_at")
    shown_as = {"recounted_hash": "recounted"}

    @admin.display(description=gettext_lazy("recounted up to"), empty_value=NOTHING)
    def recounted(self, summary: Summary) -> str | None:
        if summary.recounted_hash is None:
            return None
        return group_key(summary.recounted_algorithm, bytes(summary.recounted_hash))


@admin.register(IgnoredGroup)
class IgnoredGroupAdmin(DigestAdmin[IgnoredGroup]):
    list_display = ("digest", "hash_algorithm", "note", "ignored_by", "ignored_at")
    search_fields = ("note", "ignored_by")
    ordering = ("-id",)


@admin.register(RuleSet)
class RuleSetAdmin(ReadOnlyAdmin[RuleSet]):
    list_display = ("name", "created_by", "created_at", "updated_at")
    search_fields = ("name",)
    ordering = ("name",)


@admin.register(Plan)
class PlanAdmin(ReadOnlyAdmin[Plan]):
    list_display = (
        "id",
        "status",
        "action",
        "rule_set_name",
        "group_count",
        "remove_count",
        "freed_bytes",
        "its_job",
        "created_by",
        "created_at",
    )
    list_filter = ("status", "action")
    list_select_related = ("job",)
    ordering = ("-id",)
    links = ("files", "folders", "history")

    @admin.display(description=gettext_lazy("job"), empty_value=NOTHING)
    def its_job(self, plan: Plan) -> SafeString | str | None:
        return None if plan.job is None else link_to(plan.job)

    @admin.display(description=gettext_lazy("files"))
    def files(self, plan: Plan) -> SafeString:
        return link(list_url("duplicates", "planfile", plan__id__exact=plan.pk), _("Its files"))

    @admin.display(description=gettext_lazy("folders"))
    def folders(self, plan: Plan) -> SafeString:
        return link(list_url("duplicates", "planfolder", plan__id__exact=plan.pk), _("Its folders"))

    @admin.display(description=gettext_lazy("history"))
    def history(self, plan: Plan) -> SafeString:
        return link(history_url("plans", plan.pk), _("What happened to it"))


class BelowPlan:
    """Rows that name libraries, and maybe files, which may be gone: their keys are shown, nothing is looked up."""

    @admin.display(description=gettext_lazy("plan"))
    def its_plan(self, row: PlanFile | PlanFolder) -> SafeString | str:
        return link_to(row.plan)

    @admin.display(description=gettext_lazy("library"))
    def library_key(self, row: PlanFile | PlanFolder) -> int:
        return row.library_id


@admin.register(PlanFile)
class PlanFileAdmin(BelowPlan, DigestAdmin[PlanFile]):
    list_display = ("id", "its_plan", "role", "action", "library_key", "relative_path", "reason", "is_out")
    list_filter = ("role", "is_out")
    list_select_related = ("plan",)
    search_fields = ("relative_path",)
    ordering = ("-id",)
    shown_as = {
        "content_hash": "digest", "library": "library_key", "file": "file_key", "keeper": "its_keeper",
    }  # fmt: skip

    @admin.display(description=gettext_lazy("file"))
    def file_key(self, row: PlanFile) -> int:
        return row.file_id

    @admin.display(description=gettext_lazy("keeper"), empty_value=NOTHING)
    def its_keeper(self, row: PlanFile) -> SafeString | str | None:
        return None if row.keeper is None else link_to(row.keeper)


@admin.register(PlanFolder)
class PlanFolderAdmin(BelowPlan, ReadOnlyAdmin[PlanFolder]):
    list_display = ("id", "its_plan", "library_key", "folder", "file_count", "remove_count", "remove_bytes")
    list_select_related = ("plan",)
    ordering = ("-id",)
    shown_as = {"library": "library_key"}


@admin.register(FolderSearch)
class FolderSearchAdmin(LeasedAdmin[FolderSearch]):
    list_display = ("id", "status", "requested_by", "progress", "pair_count", "worker", "error_code", "created_at")
    list_filter = ("status",)
    ordering = ("-id",)


@admin.register(FolderPair)
class FolderPairAdmin(ReadOnlyAdmin[FolderPair]):
    list_display = (
        "id",
        "its_search",
        "left_key",
        "left_folder",
        "right_key",
        "right_folder",
        "shared_files",
        "shared_bytes",
    )
    list_select_related = ("search",)
    ordering = ("-id",)
    shown_as = {"left_library": "left_key", "right_library": "right_key"}

    @admin.display(description=gettext_lazy("search"))
    def its_search(self, pair: FolderPair) -> SafeString | str:
        return link_to(pair.search)

    @admin.display(description=gettext_lazy("left library"))
    def left_key(self, pair: FolderPair) -> int:
        return pair.left_library_id

    @admin.display(description=gettext_lazy("right library"))
    def right_key(self, pair: FolderPair) -> int:
        return pair.right_library_id
