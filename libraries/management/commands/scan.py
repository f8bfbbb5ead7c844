"""`manage.py scan`: ask for scans, follow them, or carry them out here."""

from __future__ import annotations

import gc
import sys
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from jobs import stopping
from jobs.models import Job
from libraries.errors import LibrariesError
from libraries.following import Line
from libraries.models import LibraryRoot, ScanRequest
from libraries.names import to_display
from libraries.readers import kept_readers

POLL_SECONDS = 0.5
STOPPED = "Stopped. What was stored stays; the next scan goes on from there."


class Command(PreparedCommand):
    help = (
        "Scan libraries by name, or all that are not paused. Without an option the scans are put into the queue and a "
        "consumer carries them out. --now carries them out in this process, with hashing, and needs no consumer."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="Libraries to scan; all where none is named")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--wait", action="store_true", help="Follow the queued scans to their end")
        how.add_argument("--now", action="store_true", help="Scan and hash in this process instead of the queue")
        parser.add_argument(
            "--accept-missing",
            action="store_true",
            help="Believe that files are gone, however many, and that another disk is meant",
        )

    def handle(self, *_args: Any, names: list[str], wait: bool, now: bool, accept_missing: bool, **_o: Any) -> None:
        libraries = _chosen(names)
        try:
            if now:
                self._scan_here(libraries, accept_missing=accept_missing)
            else:
                self._submit(libraries, wait=wait, accept_missing=accept_missing)
        except KeyboardInterrupt:
            raise CommandError(STOPPED) from None

    # --- In the queue -------------------------------------------------------------------------------------
    def _submit(self, libraries: list[LibraryRoot], *, wait: bool, accept_missing: bool) -> None:
        from libraries.queueing import submit

        high = ScanRequest.Priority.HIGH
        requests: list[ScanRequest] = []
        failed: list[str] = []
        for library in libraries:
            try:
                request = submit(library.pk, high, actor=actor(), accept_missing=accept_missing)
            except LibrariesError as refusal:
                failed.append(_of(library, refusal))
                continue
            requests.append(request)
            self.stdout.write(f"{to_display(library.name)}: scan request {request.pk} is {request.status}")
        if wait:
            failed += filter(None, [self._follow(request) for request in requests])
        _complain(failed)

    def _follow(self, request: ScanRequest) -> str | None:
        """Show one request until it ends; return what went wrong."""
        line = Line(self.stderr)
        while request.status in ScanRequest.ACTIVE:
            time.sleep(POLL_SECONDS)
            request.refresh_from_db()
            line.show(request)
        line.clear()
        self.stdout.write(_result(request))
        return None if request.status == "completed" else _of(request.library, request.error or request.status)

    # --- In this process ----------------------------------------------------------------------------------
    def _scan_here(self, libraries: list[LibraryRoot], *, accept_missing: bool) -> None:
        # Readers take a moment to start, and importing the rest takes one too.
        with kept_readers():
            self._scan_and_hash(libraries, accept_missing=accept_missing)

    def _scan_and_hash(self, libraries: list[LibraryRoot], *, accept_missing: bool) -> None:
        from libraries.running_now import scan_now

        # What is loaded by now stays: the collector need not look at it again and again, nor at the very end.
        gc.freeze()
        stopping.listen()
        failed, has_scanned = [], False
        for number, library in enumerate(libraries):
            if stopping.is_requested():
                failed.append(_not_begun(libraries[number:]))
                break
            try:
                job = scan_now(library, actor=actor(), accept_missing=accept_missing)
            except LibrariesError as refusal:
                failed.append(_of(library, refusal))
                continue
            has_scanned = True
            request = ScanRequest.objects.select_related("library").get(job=job)
            self.stdout.write(_result(request))
            if job.status != Job.Status.COMPLETED:
                failed.append(_of(library, job.error_message or job.status))
        if stopping.is_requested():
            failed.append(STOPPED)
        elif has_scanned:
            failed += self._hash_here()
        _complain(failed)

    def _hash_here(self) -> list[str]:
        """What went wrong, if anything."""
        from libraries.running_now import hash_now

        try:
            job = hash_now(actor=actor())
        except LibrariesError as refusal:
            return [f"Hashing: {refusal}"]
        return [] if job.status == Job.Status.COMPLETED else [f"Hashing: {job.error_message or job.status}"]


def _chosen(names: list[str]) -> list[LibraryRoot]:
    kept = LibraryRoot.objects.kept().order_by("id")
    if not names:
        libraries = list(kept.filter(is_paused=False))
        if not libraries:
            raise CommandError("There is no library to scan. Add one: manage.py add_library NAME PATH")
        return libraries
    found = {library.name: library for library in kept.filter(name__in=names)}
    unknown = [name for name in names if name not in found]
    if unknown:
        there = ", ".join(kept.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"There is no library called {', '.join(unknown)}. There is: {there}.")
    return [found[name] for name in dict.fromkeys(names)]


def _of(library: LibraryRoot, problem: object) -> str:
    return f"{to_display(library.name)}: {problem}"


def _not_begun(libraries: list[LibraryRoot]) -> str:
    return f"Not begun: {', '.join(to_display(each.name) for each in libraries)}"


def _result(request: ScanRequest) -> str:
    return (
        f"{to_display(request.library.name)}: {request.status}; {request.scanned_paths:,} files seen,"
        f" {request.added_count:,} new, {request.changed_count:,} changed, {request.removed_count:,} missing,"
        f" {request.failed_count:,} could not be read"
    )


def _complain(failed: list[str]) -> None:
    if failed:
        sys.stdout.flush()
        raise CommandError("\n".join(failed))
