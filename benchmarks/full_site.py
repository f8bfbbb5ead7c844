"""Rows of every kind by the hundred thousand in one SQLite database, as years of use would leave them.

`python -m benchmarks.full_site KIND [FILES]`, inside an installation, fills its database: `empty` is a fresh one with
an admin, `small` has a few rows of each kind, `full` the same and all that is made here. The keys of the rows that
pages are asked about are kept in the state folder.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blake3 import blake3

#: For each of a million files.
FILES, GROUPS = 1_000_000, 200_000
#: A change of what is made here; older databases are made anew.
EDITION = 3
KEYS = "keys.json"

LIBRARIES = ("archive", "camera", "family", "films", "projects", "scans")
#: Shares of all files: copies that were moved into a trash, and files that could not be read.
PAST, UNREADABLE = 0.06, 0.005
#: One content that lies everywhere, as the files do that programs leave in every folder.
LITTER = 5_000
#: The one large plan of each kind, and many small ones: files that went by them.
LARGE_ACT, SMALL_ACTS, SMALL_ACT = 50_000, 40, 200
PLANNED_GROUPS = 100_000
JOBS, REQUESTS, ERRORS, THUMBNAILS, PAIRS, IGNORED = 20_000, 3_000, 20_000, 100_000, 2_000, 1_000
ENDINGS = ("jpg", "jpg", "jpg", "jpg", "png", "mp4", "pdf", "zip", "docx", "raw")
DAY = 86_400
_UNDO, _EMPTY = ("undo", "undoing", "undone"), ("empty", "emptying", "emptied")
#: What a plan keeps of a file.
_COPIED = (
    "hash_algorithm", "content_hash", "library_id", "relative_path", "size_bytes", "mtime_ns", "ctime_ns", "inode",
    "device", "nlink",
)  # fmt: skip


def build(kind: str, files: int) -> None:
    from django.conf import settings
    from django.core.management import call_command

    from dedupfs_site.collecting import collect_static_files
    from tests.site.whole_site import empty_site, furnished_site

    call_command("migrate", verbosity=0)
    collect_static_files()
    (settings.STATE_ROOT / "libraries").mkdir(exist_ok=True)
    if kind == "empty":
        site = empty_site()
    elif kind == "small":
        site = furnished_site(1)
    else:
        site = furnished_site(2)
        site.keys.update(_Filling(files).fill())
    Path(settings.STATE_ROOT, KEYS).write_text(json.dumps(site.keys))


def digest(content: int) -> bytes:
    return blake3(b"dedupfs/full/%d" % content).digest()


def _ago(seconds: str) -> str:
    """SQL for a time before now."""
    return f"STRFTIME('%Y-%m-%d %H:%M:%f', 'now', '-' || ({seconds}) || ' seconds')"


def _numbers(count: int) -> str:
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"


class _Filling:
    """One database on its way to so many files."""

    def __init__(self, files: int) -> None:
        from django.db import connection

        self.files = files
        self.scale = files / FILES
        self.libraries: list[int] = []
        #: Pairs of ids, of the file that stayed and the one that went.
        self.past: list[tuple[int, int]] = []
        self.connection = connection

    def many(self, count: int) -> int:
        return max(int(count * self.scale), 1)

    def fill(self) -> dict[str, str]:
        from django.db import transaction

        from duplicates import summary

        self.do("PRAGMA cache_size = -262144")
        raw = self.connection.connection
        raw.create_function("folder_of", 1, lambda path: path.rpartition("/")[0], deterministic=True)
        with transaction.atomic():
            self._libraries()
            self._files()
        summary.bring_up_to_date()
        for step in (self._states, self._jobs, self._scans, self._thumbnails, self._further):
            with transaction.atomic():
                step()
        with transaction.atomic():
            done = self._acts()
        with transaction.atomic():
            ready = self._ready_plan()
        self.do("PRAGMA wal_checkpoint(TRUNCATE)")
        return {name: str(key) for name, key in self._keys(done, ready).items()}

    def do(self, sql: str, values: list[Any] | None = None) -> int:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return int(cursor.lastrowid or 0)

    def ask(self, sql: str, values: list[Any] | None = None) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchone()[0]

    # --- The index ------------------------------------------------------------------------------------------
    def _libraries(self) -> None:
        from libraries.models import LibraryRoot, LibraryState

        for name in LIBRARIES:
            library = LibraryRoot.objects.create(name=name, root_path=f"/libraries/{name}", scan_interval_minutes=1440)
            LibraryState.objects.create(library=library, mount="present", is_writable=True, filesystems={"": name})
            self.libraries.append(library.pk)

    def _contents(self) -> list[int]:
        """Which content each file has, in the order of paths. A negative one is of a file that went."""
        groups, past = self.many(GROUPS), self.many(int(FILES * PAST))
        # Most groups are pairs.
        copies = [(2, 2, 2, 2, 2, 3, 3, 5)[number % 8] for number in range(groups)]
        copies[0] = self.many(LITTER)
        contents = [number for number, count in enumerate(copies) for _ in range(count)]
        first = groups
        contents += [*range(first, first + past), *range(-first - past, -first)]
        contents += range(first + past + 1, first + past + 1 + self.files - len(contents))
        random.Random("full").shuffle(contents)
        return contents

    def _files(self) -> None:
        columns = (
            "id", "library_id", "relative_path", "size_bytes", "mtime_ns", "inode", "device", "ctime_ns", "nlink",
            "is_missing", "needs_hash", "hash_algorithm", "content_hash", "hashed_at", "hash_error_count",
            "hash_last_error",
        )  # fmt: skip
        marks = ", ".join(["%s"] * len(columns))
        with self.connection.cursor() as cursor:
            # One row at a time is all that SQLite asks for, and all of them would take a lot of memory.
            rows: Any = self._rows()
            cursor.executemany(f"INSERT INTO library_files ({', '.join(columns)}) VALUES ({marks})", rows)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        first = int(self.ask("SELECT COALESCE(MAX(id), 0) FROM library_files")) + 1
        contents = self._contents()
        groups, past = self.many(GROUPS), self.many(int(FILES * PAST))
        shares = self.files / len(self.libraries)
        stayed: dict[int, int] = {}
        went: dict[int, int] = {}
        when = "2026-01-01 00:00:00.000"
        for number, content in enumerate(contents):
            key, is_gone = first + number, content < 0
            content = abs(content) - 1 if is_gone else content
            if groups <= content < groups + past:
                (went if is_gone else stayed)[content] = key
            unread = content > groups + past and content % int(1 / UNREADABLE) == 0
            size = 50 if content == 0 else 20_000 + content * 7919 % 9_000_011
            mtime = (1_500_000_000 + content * 211 % 200_000_000) * 10**9
            yield (
                key, self.libraries[int(number / shares)], _path(number, content), size, mtime, key, 1, mtime, 1,
                is_gone, unread, None if unread else "blake3", None if unread else digest(content), when,
                3 if unread else 0, "input/output error" if unread else None,
            )  # fmt: skip
        self.past = [(stayed[content], went[content]) for content in sorted(stayed)]

    def _states(self) -> None:
        self.do(
            """UPDATE library_states SET (file_count, total_bytes, missing_count, walked_files, walked_bytes) =
            (SELECT COALESCE(SUM(NOT is_missing), 0), COALESCE(SUM(size_bytes * NOT is_missing), 0),
                    COALESCE(SUM(is_missing), 0), COUNT(*), COALESCE(SUM(size_bytes), 0)
               FROM library_files f WHERE f.library_id = library_states.library_id)"""
        )
        self.do(f"UPDATE library_states SET checked_at = {_ago('60')}")
        self.do(
            f"UPDATE library_roots SET last_scanned_at = {_ago('7200')}, next_scan_at = DATETIME('now', '+2 hours')"
        )

    # --- What was done --------------------------------------------------------------------------------------
    def _jobs(self) -> None:
        """Over sixty days, each asked for by somebody; some wait."""
        count = self.many(JOBS)
        age = f"({count} - i) * {60 * DAY / count}"
        self.do(
            f"""{_numbers(count)} INSERT INTO jobs (id, kind, status, dry_run, progress, total_items, processed_items,
              error_code, error_message, created_at, started_at, finished_at)
            SELECT printf('%08x-0000-4000-8000-000000000000', (i * 2654435761) % 4294967296),
                   CASE i % 10 WHEN 0 THEN 'scan' WHEN 1 THEN 'hash' WHEN 2 THEN 'delete' ELSE 'thumbnail' END,
                   CASE i % 25 WHEN 0 THEN 'failed' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled' ELSE 'completed' END,
                   i % 10 = 2, 1.0, 100, 100, CASE WHEN i % 25 IN (0, 5) THEN 'WORKER_FAILURE' END,
                   CASE WHEN i % 25 IN (0, 5) THEN 'It broke in step ' || i END,
                   {_ago(f"600 + {age}")}, {_ago(f"590 + {age}")}, {_ago(f"500 + {age}")} FROM n"""
        )
        self.do(
            f"""{_numbers(self.many(200))} INSERT INTO jobs (id, kind, created_at)
            SELECT printf('%08x-0000-4000-9000-000000000000', i), 'thumbnail', {_ago("i")} FROM n"""
        )
        self.do(
            """INSERT INTO logbook_events (item_id, item_type, event_type, actor, created_at)
            SELECT item.id, item.item_type, 'requested',
                   CASE jobs.rowid % 3 WHEN 0 THEN 'ada' ELSE 'otto-0' END, jobs.created_at
              FROM jobs JOIN logbook_items item ON item.item_type = 'jobs' AND item.subject_id = jobs.id"""
        )

    def _scans(self) -> None:
        count = self.many(REQUESTS)
        library = f"{self.libraries[0]} + i % {len(self.libraries)}"
        self.do(
            f"""{_numbers(count)} INSERT INTO scan_requests (id, library_id, priority, status, requested_by, attempts,
              scanned_paths, total_paths, added_count, failed_count, error, created_at, started_at, completed_at)
            SELECT printf('%08x-1111-4000-8000-000000000000', i), {library}, i % 2,
                   CASE i % 20 WHEN 0 THEN 'failed' WHEN 1 THEN 'cancelled' ELSE 'completed' END, 'otto-0', 1, 160000,
                   160000, 12, i % 3, CASE i % 20 WHEN 0 THEN 'the disk went away' END,
                   {_ago(f"900 + ({count} - i) * 800")}, {_ago(f"890 + ({count} - i) * 800")},
                   {_ago(f"600 + ({count} - i) * 800")} FROM n"""
        )
        self.do(
            f"""{_numbers(count)} INSERT INTO scan_sessions (status, started_at, finished_at, error_message, files_seen,
              directories_seen, bytes_seen, error_count, library_id, added_count)
            SELECT CASE i % 20 WHEN 0 THEN 'failed' ELSE 'succeeded' END, {_ago(f"890 + ({count} - i) * 800")},
                   {_ago(f"600 + ({count} - i) * 800")}, CASE i % 20 WHEN 0 THEN 'the disk went away' END, 160000, 4000,
                   160000 * 4000000, i % 3, {library}, 12 FROM n"""
        )
        last = int(self.ask("SELECT MAX(id) FROM scan_sessions"))
        errors = self.many(ERRORS)
        self.do(
            f"""{_numbers(errors)} INSERT INTO scan_errors (library_id, session_id, relative_path, is_folder, reason)
            SELECT {library}, {last}, 'locked/' || (i / 100) || '/' || i, i % 10 = 0, 'permission denied' FROM n"""
        )
        self.do(
            """UPDATE library_states SET error_count =
            (SELECT COUNT(*) FROM scan_errors e WHERE e.library_id = library_states.library_id)"""
        )

    def _thumbnails(self) -> None:
        """Of the groups with most copies, as somebody who pages through them would have them made."""
        from duplicates.models import DuplicateGroup, group_key
        from libraries.models import LibraryFile
        from thumbnails.keys import thumb_key
        from thumbnails.models import Thumbnail

        count = self.many(THUMBNAILS)
        groups = DuplicateGroup.objects.order_by("by_files", "by_total", "hash_algorithm", "content_hash")
        keys = list(groups.values_list("sample_file_id", flat=True)[:count])
        rows = []
        for begin in range(0, len(keys), 500):
            for file in LibraryFile.objects.filter(pk__in=keys[begin : begin + 500]):
                is_broken = file.pk % 50 == 0
                rows.append(
                    Thumbnail(
                        thumb_key=thumb_key(file), file=file, status="failed" if is_broken else "ready",
                        group_key=group_key("blake3", file.content_hash or b""), media_type="image", format="webp",
                        max_dimension=320, source_size_bytes=file.size_bytes, source_mtime_ns=file.mtime_ns, width=320,
                        height=240, bytes_size=12_000, error_count=3 if is_broken else 0,
                        error_code="THUMB_DECODE_FAILED" if is_broken else None,
                    )
                )  # fmt: skip
        Thumbnail.objects.bulk_create(rows, batch_size=1_000)

    def _further(self) -> None:
        from duplicates.models import FolderSearch

        search = FolderSearch.objects.filter(status="completed").order_by("-pk").first()
        if search is None:
            search = FolderSearch.objects.create(status="completed")
        self.do(
            f"""{_numbers(self.many(PAIRS))} INSERT INTO folder_pairs (search_id, left_library_id, left_folder,
              right_library_id, right_folder, shared_files, shared_bytes, left_files, left_bytes, left_only_files,
              right_files, right_bytes, right_only_files)
            SELECT {search.pk}, {self.libraries[0]}, '2001/01/' || i, {self.libraries[1]}, '2002/02/' || i, 30 + i % 50,
                   100000000 + i * 77777, 40 + i % 50, 120000000 + i * 77777, 10, 35 + i % 50, 110000000 + i * 77777, 5
              FROM n"""
        )
        self.do(
            f"""INSERT INTO ignored_groups (hash_algorithm, content_hash, note, ignored_by)
            SELECT hash_algorithm, content_hash, 'wanted twice', 'otto-0' FROM duplicate_groups
             WHERE id % {max(self.many(GROUPS) // self.many(IGNORED), 1)} = 1"""
        )
        self.do(
            f"""{_numbers(30)} INSERT OR IGNORE INTO daily_samples (day, file_count, total_bytes, reclaimable_bytes)
            SELECT DATE('now', '-' || i || ' days'), 1000000, 4000000000000, 900000000000 + i * 1000000000 FROM n"""
        )
        self.do(
            f"""{_numbers(5_000)} INSERT INTO wal_sizes (seen_at, bytes_size)
            SELECT {_ago("i * 60")}, i * 100000 FROM n"""
        )
        self.do(
            f"""{_numbers(2_000)} INSERT INTO wal_maintenance_jobs (requested_mode, status, created_at, finished_at)
            SELECT 'passive', 'completed', {_ago("i * 900")}, {_ago("i * 900 - 1")} FROM n"""
        )

    # --- Plans and what came of them ------------------------------------------------------------------------
    def _ready_plan(self) -> int:
        """One over half of all groups, which waits for somebody."""
        self._pair_table()
        self.do(
            f"""INSERT INTO pairs (keeper, victim) SELECT g.sample_file_id, f.id
              FROM (SELECT * FROM duplicate_groups ORDER BY id LIMIT {self.many(PLANNED_GROUPS)}) g
              CROSS JOIN library_files f ON f.hash_algorithm = g.hash_algorithm AND f.content_hash = g.content_hash
             WHERE f.id <> g.sample_file_id AND NOT f.is_missing AND NOT f.needs_hash"""
        )
        return self._plan("tidy-0", 1)

    def _acts(self) -> int:
        """Small ones over two months, of which some were undone and some emptied; at last the large one."""
        size = self.many(SMALL_ACT)
        rest = iter(self.past)
        for number in range(SMALL_ACTS):
            plan = self._plan_of([next(rest) for _ in range(size)])
            act = self._carry_out(plan, days_ago=60 - number)
            if number % 4 < 2:
                self._take_out(act, plan, _UNDO if number % 4 else _EMPTY)
        return self._carry_out(self._plan_of([next(rest) for _ in range(self.many(LARGE_ACT))]), days_ago=1)

    def _pair_table(self) -> None:
        self.do("DROP TABLE IF EXISTS pairs")
        self.do("CREATE TEMPORARY TABLE pairs (keeper INTEGER, victim INTEGER)")

    def _plan_of(self, pairs: list[tuple[int, int]]) -> int:
        self._pair_table()
        with self.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO pairs VALUES (%s, %s)", pairs)
        return self._plan("", 0)

    def _plan(self, name: str, days_ago: int) -> int:
        from database.clock import SecondsFromNow
        from database.routing import POLICY
        from duplicates.models import Plan
        from duplicates.plan_storing import totals_of

        plan = Plan.objects.create(rule_set_name=name, created_by="ada", created_at=SecondsFromNow(-days_ago * DAY))
        columns = f"plan_id, role, file_id, folder, reason, keeper_id, action, {', '.join(_COPIED)}"
        theirs = ", ".join(f"f.{column}" for column in _COPIED)
        # Group by group, and each one's keeper first, as plans are stored.
        first = int(self.ask("SELECT COALESCE(MAX(id), 0) FROM plan_files"))
        self.do("DROP TABLE IF EXISTS lines")
        self.do(
            """CREATE TEMPORARY TABLE lines AS SELECT ROW_NUMBER() OVER (ORDER BY keeper, goes, file) AS number, *
            FROM (SELECT DISTINCT keeper, 0 AS goes, keeper AS file FROM pairs
                  UNION ALL SELECT keeper, 1, victim FROM pairs)"""
        )
        self.do("CREATE INDEX temp.lines_of_keepers ON lines (file, number) WHERE NOT goes")
        self.do(
            f"""INSERT INTO plan_files (id, {columns})
            SELECT {first} + l.number, {plan.pk}, IIF(l.goes, 'remove', 'keep'), f.id, folder_of(f.relative_path),
                   IIF(l.goes, 'another path is shorter', 'it has the shortest path'),
                   IIF(l.goes, {first} + (SELECT k.number FROM lines k WHERE k.file = l.keeper AND NOT k.goes), NULL),
                   IIF(l.goes, 'trash', NULL), {theirs}
              FROM lines l CROSS JOIN library_files f ON f.id = l.file ORDER BY l.number"""
        )
        self.do(
            f"""INSERT INTO plan_folders (plan_id, library_id, folder, file_count, remove_count, remove_bytes)
            SELECT plan_id, library_id, folder, COUNT(*), SUM(role = 'remove'), SUM(size_bytes * (role = 'remove'))
              FROM plan_files WHERE plan_id = {plan.pk} GROUP BY library_id, folder"""
        )
        totals = totals_of(plan.pk, POLICY)
        Plan.objects.filter(pk=plan.pk).update(status="ready", **asdict(totals))
        return plan.pk

    def _carry_out(self, plan_id: int, days_ago: int) -> int:
        from database.clock import SecondsFromNow
        from duplicates.models import Plan
        from trash.models import Act
        from trash.path_keys import path_key

        self.connection.connection.create_function("path_key", 1, path_key, deterministic=True)
        plan = Plan.objects.get(pk=plan_id)
        Plan.objects.filter(pk=plan_id).update(status="authorised")
        then = SecondsFromNow(-days_ago * DAY)
        figures = {"file_count": plan.remove_count, "done_count": plan.remove_count, "trashed_count": plan.remove_count}
        sizes = {"total_bytes": plan.remove_bytes, "bytes_done": plan.remove_bytes, "trashed_bytes": plan.remove_bytes}
        act = Act.objects.create(plan_id=plan_id, authorised_by="ada", authorised_at=then, **figures, **sizes)
        self.do(
            f"""INSERT INTO trash_items (act_id, plan_file_id, status, library_id, path_key, acted_at)
            SELECT {act.pk}, id, 'trashed', library_id, path_key(relative_path), {_ago(str(days_ago * DAY))}
              FROM plan_files WHERE plan_id = {plan_id} AND role = 'remove'"""
        )
        Act.objects.filter(pk=act.pk).update(status="running")
        Act.objects.filter(pk=act.pk).update(status="completed", finished_at=then)
        Plan.objects.filter(pk=plan_id).update(status="done")
        return act.pk

    def _take_out(self, act_id: int, plan_id: int, verb: tuple[str, str, str]) -> None:
        from django.db.models.functions import Now

        from trash.models import Act, TrashItem

        name, through, end = verb
        whole = Act.objects.get(pk=act_id)
        space = {"bench": [10**9, 2 * 10**9]} if verb == _EMPTY else {}
        act = Act.objects.create(
            verb=name, plan_id=plan_id, selection={"plan": plan_id}, authorised_by="ada", space=space,
            file_count=whole.file_count, done_count=whole.file_count,
        )  # fmt: skip
        items = TrashItem.objects.filter(act_id=act_id)
        items.update(status=through, left_by=act)
        items.update(status=end, left_at=Now())
        Act.objects.filter(pk=act_id).update(trashed_count=0, trashed_bytes=0)
        Act.objects.filter(pk=act.pk).update(status="running")
        Act.objects.filter(pk=act.pk).update(status="completed", finished_at=Now())

    # --- What pages are asked about -------------------------------------------------------------------------
    def _keys(self, act: int, plan: int) -> dict[str, Any]:
        from duplicates.models import FolderPair, PlanFile, PlanFolder, group_key
        from jobs.models import Job
        from libraries.models import LibraryFile, ScanRequest
        from trash.models import TrashItem

        item = TrashItem.objects.filter(act_id=act).select_related("plan_file").latest("pk")
        return {
            "job_id": Job.objects.filter(status="failed").latest("created_at").pk,
            "library_id": item.library_id,
            # Three copies, as in the small database.
            "group_key": group_key("blake3", digest(5)),
            "plan_id": plan,
            "act_id": act,
            "item_id": PlanFile.objects.filter(plan_id=plan, role="remove").latest("pk").pk,
            "folder_id": PlanFolder.objects.filter(plan_id=plan).latest("pk").pk,
            "file_id": LibraryFile.objects.latest("pk").pk,
            "pair_id": FolderPair.objects.latest("pk").pk,
            "request_id": ScanRequest.objects.latest("pk").pk,
            "path": item.plan_file.relative_path,
        }


def _path(number: int, content: int) -> str:
    """Fifty files in a folder, in the order in which a walk would find them."""
    folder = number // 50
    ending = "db" if content == 0 else ENDINGS[content % len(ENDINGS)]
    return f"{2000 + folder // 4_000:04}/{folder // 400 % 10 + 1:02}/event-{folder:06}/IMG_{number:07}.{ending}"


if __name__ == "__main__":
    import django

    django.setup()
    build(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else FILES)
