"""Libraries, their files and the scans of them in Django's admin; looked at, never written here."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from database.admin_readonly import NOTHING, ReadOnlyAdmin, history_url, link, link_to, list_url
from libraries.models import LibraryFile, LibraryRoot, ScanSession


@admin.register(LibraryRoot)
class LibraryRootAdmin(ReadOnlyAdmin[LibraryRoot]):
    list_display = ("name", "root_path", "last_scanned_at", "created_at", "files")
    search_fields = ("name", "root_path")
    ordering = ("name",)
    links = ("files",)

    @admin.display(description=gettext_lazy("files"))
    def files(self, root: LibraryRoot) -> SafeString:
        return link(list_url("libraries", "libraryfile", library__id__exact=root.pk), _("Its files"))


@admin.register(ScanSession)
class ScanSessionAdmin(ReadOnlyAdmin[ScanSession]):
    list_display = (
        "id",
        "status",
        "started_at",
        "finished_at",
        "files_seen",
        "directories_seen",
        "bytes_seen",
        "error_count",
    )
    list_filter = ("status",)
    search_fields = ("error_message",)
    ordering = ("-id",)
    links = ("history",)

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
    shown_as = {"content_hash": "digest"}
    links = ("thumbnails",)

    @admin.display(description=gettext_lazy("library"))
    def in_library(self, file: LibraryFile) -> SafeString | str:
        return link_to(file.library)

    @admin.display(description=gettext_lazy("content hash"), empty_value=NOTHING)
    def digest(self, file: LibraryFile) -> str | None:
        return None if file.content_hash is None else bytes(file.content_hash).hex()

    @admin.display(description=gettext_lazy("thumbnails"))
    def thumbnails(self, file: LibraryFile) -> SafeString:
        return link(list_url("thumbnails", "thumbnail", file__id__exact=file.pk), _("Its thumbnails"))
