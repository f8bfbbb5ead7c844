"""Libraries, their files and the scans of them in Django's admin; looked at, never written here."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin
from django.db import connections
from django.db.models import F, Func, Q, QuerySet, Value
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from frame.admin_links import rows_link
from frame.admin_readonly import KEY_ALONE, ReadOnlyAdmin, newest
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

#: Libraries may overlap, and then a path is in each of them.
MOST_AT_A_PATH = 100
#: What `LibraryRoot`'s filter and links write into an address.
OF_LIBRARY = "library__id__exact"
_DIGEST = re.compile(r"(?:(?P<algorithm>\w+):)?(?P<digest>[0-9a-f]{64})")


def of_content(term: str) -> Q:
    """Rows of one content, by its digest alone or as a group is named; an index begins with these columns."""
    found = _DIGEST.fullmatch(term.lower())
    if found is None:
        return Q(pk__in=[])
    algorithms = [found["algorithm"]] if found["algorithm"] else LibraryFile.HashAlgorithm.values
    return Q(hash_algorithm__in=algorithms, content_hash=bytes.fromhex(found["digest"]))


def at_path(term: str) -> Q:
    """The files at exactly this path, below any library or from the root of the disk; by the index of paths."""
    roots = dict(LibraryRoot.objects.values_list("pk", "root_path"))
    paths = {term, *(term.removeprefix(f"{root.rstrip('/')}/") for root in roots.values())}
    rows = LibraryFile.objects.filter(library__in=list(roots))
    if connections[rows.db].vendor == "postgresql":
        rows = rows.alias(path=Func(F("relative_path"), function="dedupfs_path_digest"))
        rows = rows.filter(path__in=[Func(Value(path), function="dedupfs_path_digest") for path in paths])
    else:
        rows = rows.filter(relative_path__in=paths)
    return Q(pk__in=list(rows.values_list("pk", flat=True)[:MOST_AT_A_PATH]))


class StateFilter(admin.SimpleListFilter):
    """What is rare and has no index is looked for among the newest files: asking all of them takes too long."""

    title = gettext_lazy("state, of the newest")
    parameter_name = "state"
    states = {
        "missing": (gettext_lazy("missing"), Q(is_missing=True)),
        "unhashed": (gettext_lazy("not hashed"), Q(is_missing=False, needs_hash=True)),
        "failed": (gettext_lazy("not readable"), Q(hash_error_count__gt=0)),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, words) for name, (words, _) in self.states.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[LibraryFile]) -> QuerySet[LibraryFile]:
        chosen = self.states.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen[1], newest(LibraryFile))


@admin.register(LibraryRoot)
class LibraryRootAdmin(ReadOnlyAdmin[LibraryRoot]):
    list_display = (
        "name",
        "root_path",
        "role",
        "is_paused",
        "last_scanned_at",
        "next_scan_at",
        "removing_at",
        "files",
        "requests",
    )
    list_filter = ("role", "is_paused")
    search_fields = ("name", "root_path")
    search_help_text = gettext_lazy("Part of its name or of its path")
    ordering = ("name",)
    links = ("state", "files", "errors", "requests", "sessions", "history")
    state = rows_link("libraries.librarystate", "library", gettext_lazy("state"), gettext_lazy("What was found of it"))
    files = rows_link("libraries.libraryfile", "library", gettext_lazy("files"), gettext_lazy("Its files"))
    errors = rows_link("libraries.scanerror", "library", gettext_lazy("errors"), gettext_lazy("What could not be read"))
    requests = rows_link("libraries.scanrequest", "library", gettext_lazy("requests"), gettext_lazy("Its scans"))
    sessions = rows_link("libraries.scansession", "library", gettext_lazy("sessions"), gettext_lazy("Walks over it"))


@admin.register(LibraryState)
class LibraryStateAdmin(ReadOnlyAdmin[LibraryState]):
    list_display = (
        "library",
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
    search_fields = ("library__name", "mount_note")
    search_help_text = gettext_lazy("Part of the library's name or of the note")
    ordering = ("library_id",)


@admin.register(ScanRequest)
class ScanRequestAdmin(ReadOnlyAdmin[ScanRequest]):
    list_display = ("id", "library", "priority", "status", "requested_by", "attempts", "job", "error", "created_at")
    list_filter = ("status", "priority", "library")
    search_fields = ("requested_by", "error", "job__id__exact")
    search_help_text = gettext_lazy("Its id or its job's, part of who asked, or of the error")
    ordering = ("-created_at", "-id")
    links = ("history",)


@admin.register(ScanError)
class ScanErrorAdmin(ReadOnlyAdmin[ScanError]):
    list_display = ("id", "relative_path", "library", "session", "is_folder", "reason", "created_at")
    list_filter = ("library", "is_folder")
    search_fields = ("relative_path", "reason")
    search_help_text = gettext_lazy("Part of the path or of the reason, among the newest")
    is_large = True
    ordering = ("-id",)


@admin.register(HashState)
class HashStateAdmin(ReadOnlyAdmin[HashState]):
    list_display = ("id", "algorithm", "switching_to", "is_due", "is_paused", "retry_at", "updated_at")
    links = ("history",)


@admin.register(HashRun)
class HashRunAdmin(ReadOnlyAdmin[HashRun]):
    list_display = ("job_id", "job", "phase", "files_done", "files_total", "bytes_done", "bytes_total", "started_at")
    list_filter = ("phase",)
    search_fields = (KEY_ALONE,)
    search_help_text = gettext_lazy("Its job's whole id")
    ordering = ("-started_at",)


@admin.register(Rehash)
class RehashAdmin(ReadOnlyAdmin[Rehash]):
    list_display = ("file_id", "file", "size_bytes", "mtime_ns", "content_hash")
    search_fields = (KEY_ALONE,)
    search_help_text = gettext_lazy("Its file's id")
    is_large = True
    ordering = ("-file_id",)


@admin.register(ScanSession)
class ScanSessionAdmin(ReadOnlyAdmin[ScanSession]):
    list_display = (
        "id",
        "library",
        "status",
        "job",
        "started_at",
        "finished_at",
        "files_seen",
        "directories_seen",
        "bytes_seen",
        "error_count",
    )
    list_filter = ("status", "library")
    search_fields = ("error_message", "job__id__exact")
    search_help_text = gettext_lazy("Its number, its job's id, or part of the error")
    ordering = ("-id",)
    links = ("errors", "history")
    errors = rows_link("libraries.scanerror", "session", gettext_lazy("errors"), gettext_lazy("What could not be read"))


@admin.register(LibraryFile)
class LibraryFileAdmin(ReadOnlyAdmin[LibraryFile]):
    list_display = ("id", "relative_path", "library", "size_bytes", "is_missing", "needs_hash", "content_hash")
    list_filter = ("library", StateFilter)
    search_fields = ("relative_path",)
    search_help_text = gettext_lazy("A whole path, a digest or an id; part of a path, among the newest files")
    is_large = True
    ordering = ("-id",)
    links = ("thumbnails",)
    thumbnails = rows_link("thumbnails.thumbnail", "file", gettext_lazy("thumbnails"), gettext_lazy("Its thumbnails"))

    def meant(self, term: str) -> Q:
        return super().meant(term) | of_content(term) | at_path(term)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """SQLite has an index of a library's files by their paths, and would sort all of them by anything else."""
        is_sqlite = connections[LibraryFile.objects.db].vendor == "sqlite"
        return (
            ("library_id", "relative_path") if is_sqlite and set(request.GET) - {"p"} == {OF_LIBRARY} else self.ordering
        )
