"""Libraries, their files and the scans of them in Django's admin; looked at, never written here."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from database.admin_readonly import NOTHING, ReadOnlyAdmin, history_url, link, link_to, list_url
from libraries.models import (
    HashRun,
    HashState,
    LibraryFile,
    LibraryRoot,
    LibraryState,
    Rehash,
    ScanError,
    ScanRequest,
    ScanSession,
)


@admin.register(LibraryRoot)
class LibraryRootAdmin(ReadOnlyAdmin[LibraryRoot]):
    list_display = ("name", "root_path", "role", "is_paused", "last_scanned_at", "next_scan_at", "removing_at", "files")
    list_filter = ("role", "is_paused")
    search_fields = ("name", "root_path")
    ordering = ("name",)
    links = ("files", "errors", "requests", "history")

    @admin.display(description=gettext_lazy("files"))
    def files(self, root: LibraryRoot) -> SafeString:
        return link(list_url("libraries", "libraryfile", library__id__exact=root.pk), _("Its files"))

    @admin.display(description=gettext_lazy("errors"))
    def errors(self, root: LibraryRoot) -> SafeString:
        return link(list_url("libraries", "scanerror", library__id__exact=root.pk), _("What could not be read"))

    @admin.display(description=gettext_lazy("requests"))
    def requests(self, root: LibraryRoot) -> SafeString:
        return link(list_url("libraries", "scanrequest", library__id__exact=root.pk), _("Its scans"))

    @admin.display(description=gettext_lazy("history"))
    def history(self, root: LibraryRoot) -> SafeString:
        return link(history_url("library_roots", root.pk), _("What happened to it"))


@admin.register(LibraryState)
class LibraryStateAdmin(ReadOnlyAdmin[LibraryState]):
    list_display = (
        "in_library",
        "mount",
        "mount_note",
        "is_writable",
        "file_count",
        "total_bytes",
        "missing_count",
        "error_count",
        "gone_count",
        "checked_at",
    )
    list_filter = ("mount", "is_writable")
    list_select_related = ("library",)
    ordering = ("library_id",)

    @admin.display(description=gettext_lazy("library"))
    def in_library(self, state: LibraryState) -> SafeString | str:
        return link_to(state.library)


@admin.register(ScanRequest)
class ScanRequestAdmin(ReadOnlyAdmin[ScanRequest]):
    list_display = ("id", "in_library", "priority", "status", "requested_by", "attempts", "its_job", "created_at")
    list_filter = ("status", "priority", "library")
    list_select_related = ("library", "job")
    search_fields = ("id", "requested_by", "error")
    ordering = ("-created_at", "-id")
    links = ("history",)

    @admin.display(description=gettext_lazy("library"))
    def in_library(self, request: ScanRequest) -> SafeString | str:
        return link_to(request.library)

    @admin.display(description=gettext_lazy("job"), empty_value=NOTHING)
    def its_job(self, request: ScanRequest) -> SafeString | str | None:
        return None if request.job is None else link_to(request.job)

    @admin.display(description=gettext_lazy("history"))
    def history(self, request: ScanRequest) -> SafeString:
        return link(history_url("scan_requests", request.pk), _("What happened to it"))


@admin.register(ScanError)
class ScanErrorAdmin(ReadOnlyAdmin[ScanError]):
    list_display = ("id", "relative_path", "in_library", "is_folder", "reason", "created_at")
    list_filter = ("library", "is_folder")
    list_select_related = ("library",)
    search_fields = ("relative_path", "reason")
    ordering = ("-id",)

    @admin.display(description=gettext_lazy("library"))
    def in_library(self, error: ScanError) -> SafeString | str:
        return link_to(error.library)


@admin.register(HashState)
class HashStateAdmin(ReadOnlyAdmin[HashState]):
    list_display = ("algorithm", "switching_to", "is_due", "is_paused", "retry_at", "updated_at")


@admin.register(HashRun)
class HashRunAdmin(ReadOnlyAdmin[HashRun]):
    list_display = ("job", "phase", "files_done", "files_total", "bytes_done", "bytes_total", "started_at")
    list_filter = ("phase",)
    list_select_related = ("job",)
    ordering = ("-started_at",)


@admin.register(Rehash)
class RehashAdmin(ReadOnlyAdmin[Rehash]):
    list_display = ("file_id", "size_bytes", "mtime_ns", "digest")
    ordering = ("-file_id",)
    shown_as = {"content_hash": "digest"}

    @admin.display(description=gettext_lazy("content hash"))
    def digest(self, rehash: Rehash) -> str:
        return bytes(rehash.content_hash).hex()


@admin.register(ScanSession)
class ScanSessionAdmin(ReadOnlyAdmin[ScanSession]):
    list_display = (
        "id",
        "in_library",
        "status",
        "started_at",
        "finished_at",
        "files_seen",
        "directories_seen",
        "bytes_seen",
        "error_count",
    )
    list_filter = ("status", "library")
    list_select_related = ("library",)
    search_fields = ("error_message",)
    ordering = ("-id",)
    links = ("history",)

    @admin.display(description=gettext_lazy("library"), empty_value=NOTHING)
    def in_library(self, session: ScanSession) -> SafeString | str | None:
        return None if session.library is None else link_to(session.library)

    @admin.display(description=gettext_lazy("history"))
    def history(self, session: ScanSession) -> SafeString:
        return link(history_url("scan_sessions", session.pk), _("What happened to it"))


@admin.register(LibraryFile)
class LibraryFileAdmin(ReadOnlyAdmin[LibraryFile]):
    list_display = ("id", "relative_path", "in_library", "size_bytes", "is_missing", "needs_hash", "digest")
    list_filter = ("library", "is_missing", "needs_hash", "hash_algorithm")
    list_select_related = ("library",)
    search_fields = ("relative_path",)
    search_help_text = gettext_lazy("A part of the path; in a large library choose the library first")
    ordering = ("-id",)
    shown_as = {"content_hash": "digest", "sample_hash": "sample"}
    links = ("thumbnails",)

    @admin.display(description=gettext_lazy("library"))
    def in_library(self, file: LibraryFile) -> SafeString | str:
        return link_to(file.library)

    @admin.display(description=gettext_lazy("content hash"), empty_value=NOTHING)
    def digest(self, file: LibraryFile) -> str | None:
        return None if file.content_hash is None else bytes(file.content_hash).hex()

    @admin.display(description=gettext_lazy("sample hash"), empty_value=NOTHING)
    def sample(self, file: LibraryFile) -> str | None:
        return None if file.sample_hash is None else bytes(file.sample_hash).hex()

    @admin.display(description=gettext_lazy("thumbnails"))
    def thumbnails(self, file: LibraryFile) -> SafeString:
        return link(list_url("thumbnails", "thumbnail", file__id__exact=file.pk), _("Its thumbnails"))
