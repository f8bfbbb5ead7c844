"""`manage.py cleanup_thumbnails`: remove the thumbnails that nobody needs, in this process and at once."""

from __future__ import annotations

import re
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.clock import SecondsFromNow
from database.prepared_command import PreparedCommand
from jobs import stopping
from jobs.executing import drain_all
from thumbnails.keys import GROUP_KEY
from thumbnails.models import Thumbnail, ThumbnailCleanupJob


class Command(PreparedCommand):
    help = (
        "Remove thumbnails of groups that are no more and of files that are gone or changed, pictures past the limit "
        "of the cache, and what lies in the thumbnail root for nobody. Library files are never touched."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--group", metavar="KEY", help="Only the thumbnails of this group, needed or not")
        parser.add_argument("--dry-run", action="store_true", help="Only tell what would go")

    def handle(self, *_args: Any, group: str | None, dry_run: bool, **_options: Any) -> None:
        stopping.listen()
        if group is not None:
            self._one(group.strip().lower(), is_dry=dry_run)
        elif dry_run:
            self._tell()
        else:
            self._all()

    def _one(self, group: str, *, is_dry: bool) -> None:
        from thumbnails import cleaning

        if not re.match(GROUP_KEY, group):
            raise CommandError("A group is written blake3:<64 hex digits>, sha256:<64 hex digits> or file:<id>.")
        count = Thumbnail.objects.filter(group_key=group, status__in=cleaning.CLEANABLE).count()
        if is_dry:
            self.stdout.write(f"{count:,} thumbnails would go.")
            return
        job = cleaning.schedule(group, 0, actor=actor())
        drain_all(cleaning.QUEUE)
        job.refresh_from_db()
        if job.status == "failed":
            raise CommandError(job.error_message or "It failed.")
        gone = count - Thumbnail.objects.filter(group_key=group, status__in=cleaning.CLEANABLE).count()
        self.stdout.write(f"{gone:,} thumbnails went." if job.status == "completed" else _waits(job))

    def _all(self) -> None:
        from thumbnails import cleaning, evicting, orphans, store, tidying

        _wait_for_groups()
        before = Thumbnail.objects.count()
        tidying.tidy_all()
        ThumbnailCleanupJob.objects.filter(status="pending").update(execute_after=SecondsFromNow(0))
        failed = ThumbnailCleanupJob.objects.filter(status="failed").order_by("-finished_at")
        failed_before = set(failed.values_list("pk", flat=True))
        drain_all(cleaning.QUEUE)
        cleaned = before - Thumbnail.objects.count()
        with store.alone() as is_alone:
            if not is_alone:
                raise CommandError("A consumer looks through the thumbnail root just now. Try again in a moment.")
            evicted = evicting.evict_all()
            removed = orphans.remove_orphans()
        self.stdout.write(
            f"{max(cleaned, 0):,} thumbnails nobody needs went, {evicted:,} past the limit of the cache, "
            f"and {removed:,} files without a row."
        )
        new = failed.exclude(pk__in=failed_before).first()
        if new is not None:
            raise CommandError(f"The clean-up of {new.group_key} failed: {new.error_message}")

    def _tell(self) -> None:
        from thumbnails import orphans, tidying

        _wait_for_groups()
        needless = sum(1 for _ in tidying.needless())
        orphaned = sum(1 for _ in orphans.find_orphans())
        self.stdout.write(f"{needless:,} thumbnails nobody needs and {orphaned:,} files without a row would go.")


def _wait_for_groups() -> None:
    """Which thumbnails are needed is only known once all groups are counted."""
    from thumbnails import tidying

    while not tidying.knows_groups():
        if stopping.is_requested():
            raise CommandError("It was stopped before all groups were counted.")


def _waits(job: ThumbnailCleanupJob) -> str:
    return f"The clean-up is {job.status}: thumbnails of the group wait or are rendered."
