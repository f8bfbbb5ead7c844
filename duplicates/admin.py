"""Groups, keep rules, plans and folders that share content in Django's admin; looked at, never written here."""

from __future__ import annotations

from typing import Any, TypeVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

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
from frame.admin_links import history_url, link, link_by_key, list_url, rows_link
from frame.admin_readonly import KEY_ALONE, ReadOnlyAdmin
from jobs.admin import LeasedAdmin
from libraries.admin import of_content
from libraries.models import LibraryFile

D = TypeVar("D", DuplicateGroup, IgnoredGroup, PlanFile)


class AlgorithmFilter(admin.SimpleListFilter):
    """The choices are known: Django would ask the whole table which there are."""

    title = gettext_lazy("hash algorithm")
    parameter_name = "hash_algorithm"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(LibraryFile.HashAlgorithm.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(hash_algorithm=self.value()) if self.value() else queryset


class ContentAdmin(ReadOnlyAdmin[D]):
    """A table whose rows are about a content."""

    links: tuple[str, ...] = ("members", "group_history")

    def meant(self, term: str) -> Q:
        return super().meant(term) | of_content(term)

    @admin.display(description=gettext_lazy("files"))
    def members(self, row: D) -> SafeString:
        key = group_key(row.hash_algorithm, row.content_hash)
        return link(list_url("libraries.libraryfile", q=key), _("Files of this content"))

    @admin.display(description=gettext_lazy("history"))
    def group_history(self, row: D) -> SafeString:
        key = group_key(row.hash_algorithm, row.content_hash)
        return link(history_url(ITEM, key), _("What was said about this content"))


@admin.register(DuplicateGroup)
class DuplicateGroupAdmin(ContentAdmin[DuplicateGroup]):
    list_display = (
        "id",
        "content_hash",
        "hash_algorithm",
        "file_count",
        "size_bytes",
        "total_size_bytes",
        "inode_count",
        "reclaimable_bytes",
        "sample_file_id",
        "members",
    )
    list_filter = (AlgorithmFilter,)
    search_fields = (KEY_ALONE,)
    search_help_text = gettext_lazy("A whole digest, a group's key, or an id")
    is_large = True
    # The index goes over the negated figures.
    ordering = ("by_files", "by_total", "hash_algorithm", "content_hash")
    shown_as = {"sample_file_id": "sample"}

    @admin.display(description=gettext_lazy("sample file"))
    def sample(self, group: DuplicateGroup) -> SafeString | str:
        return link_by_key(LibraryFile, group.sample_file_id)


@admin.register(GroupChange)
class GroupChangeAdmin(ReadOnlyAdmin[GroupChange]):
    list_display = ("id", "file_id", "hash_algorithm", "content_hash")
    shown_as = {"file_id": "of_file"}
    is_large = True
    ordering = ("-id",)

    @admin.display(description=gettext_lazy("file"))
    def of_file(self, change: GroupChange) -> SafeString | str:
        return link_by_key(LibraryFile, change.file_id)


@admin.register(Summary)
class SummaryAdmin(ReadOnlyAdmin[Summary]):
    list_display = ("id", "counted_file_id", "is_stale", "recounted_algorithm", "recounted_hash", "updated_at")


@admin.register(IgnoredGroup)
class IgnoredGroupAdmin(ContentAdmin[IgnoredGroup]):
    list_display = ("id", "content_hash", "hash_algorithm", "note", "ignored_by", "ignored_at", "members")
    list_filter = (AlgorithmFilter,)
    search_fields = ("note", "ignored_by")
    search_help_text = gettext_lazy("A whole digest; part of a note or of who said it, among the newest")
    is_large = True
    ordering = ("-id",)


@admin.register(RuleSet)
class RuleSetAdmin(ReadOnlyAdmin[RuleSet]):
    list_display = ("name", "created_by", "created_at", "updated_at")
    search_fields = ("name", "created_by")
    search_help_text = gettext_lazy("Part of its name, or of who made it")
    ordering = ("name",)
    links = ("history",)


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
        "job",
        "acts",
        "files",
        "created_by",
        "created_at",
    )
    list_filter = ("status", "action")
    search_fields = ("rule_set_name", "created_by", "job__id__exact")
    search_help_text = gettext_lazy("Its number, its job's id, part of a rule set's name or of who made it")
    ordering = ("-id",)
    links = ("files", "folders", "acts", "history")
    acts = rows_link("trash.act", "plan", gettext_lazy("acts"), gettext_lazy("Acts on it"))
    files = rows_link("duplicates.planfile", "plan", gettext_lazy("files"), gettext_lazy("Its files"))
    folders = rows_link("duplicates.planfolder", "plan", gettext_lazy("folders"), gettext_lazy("Its folders"))


@admin.register(PlanFile)
class PlanFileAdmin(ContentAdmin[PlanFile]):
    list_display = ("id", "plan", "role", "action", "library", "relative_path", "file_id", "reason", "is_out")
    # Not by `is_out`: the few that are would be looked for in all of them.
    list_filter = ("role",)
    search_fields = ("relative_path", "reason")
    search_help_text = gettext_lazy("Its number; part of its path or of the reason, among the newest")
    is_large = True
    ordering = ("-id",)
    shown_as = {"file": "of_file", "file_id": "of_file"}
    links = ("members", "trashed", "group_history")
    trashed = rows_link("trash.trashitem", "plan_file", gettext_lazy("trash"), gettext_lazy("What became of it"))

    def meant(self, term: str) -> Q:
        """By its number: the index of digests begins with the plan."""
        return ReadOnlyAdmin.meant(self, term)

    @admin.display(description=gettext_lazy("file"))
    def of_file(self, row: PlanFile) -> SafeString | str:
        return link_by_key(LibraryFile, row.file_id)


@admin.register(PlanFolder)
class PlanFolderAdmin(ReadOnlyAdmin[PlanFolder]):
    list_display = ("id", "plan", "library", "folder", "file_count", "remove_count", "remove_bytes")
    search_fields = ("folder",)
    search_help_text = gettext_lazy("Part of the folder's path, among the newest")
    is_large = True
    ordering = ("-id",)


@admin.register(FolderSearch)
class FolderSearchAdmin(LeasedAdmin[FolderSearch]):
    list_display = (
        "id",
        "status",
        "requested_by",
        "progress",
        "pair_count",
        "pairs",
        "worker_id",
        "error_code",
        "created_at",
    )
    list_filter = ("status",)
    search_fields = ("requested_by", "worker_id", "error_code")
    search_help_text = gettext_lazy("Its number, part of who asked, of a worker's id or of an error code")
    ordering = ("-id",)
    links = ("pairs", "history")
    pairs = rows_link("duplicates.folderpair", "search", gettext_lazy("pairs"), gettext_lazy("What it found"))


@admin.register(FolderPair)
class FolderPairAdmin(ReadOnlyAdmin[FolderPair]):
    list_display = (
        "id",
        "search",
        "left_library",
        "left_folder",
        "right_library",
        "right_folder",
        "shared_files",
        "shared_bytes",
    )
    search_fields = ("left_folder", "right_folder")
    search_help_text = gettext_lazy("Part of a folder's path, among the newest")
    is_large = True
    ordering = ("-id",)
