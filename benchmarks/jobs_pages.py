"""Walking a million jobs by cursor while others are added: what does page 5,000 cost against page 1?"""

from __future__ import annotations

import json
import statistics
import sys
import time

from benchmarks.report import Section, table
from benchmarks.scratch import installation, run

JOBS, PAGE, INSERTED = 1_000_000, 200, 1_000
SAMPLE = 50


def measure() -> Section:
    rows = []
    for vendor in ("sqlite", "postgresql"):
        with installation(vendor) as environment:
            found = json.loads(run("benchmarks.jobs_pages", environment))
        rows.append(
            [
                vendor,
                f"{found['first_ms']:.2f} ms",
                f"{found['last_ms']:.2f} ms",
                f"**{found['last_ms'] / found['first_ms']:.2f}**",
                f"{found['repeats']} / {found['gaps']}",
            ]
        )
    head = [
        "database",
        f"first {SAMPLE} pages",
        f"last {SAMPLE} pages of 5,000",
        "ratio (goal ≤ 1.5)",
        "repeats / gaps",
    ]
    what = (
        f"`jobs` with {JOBS:,} rows walked to the end by cursor, {PAGE} rows a page, while {INSERTED:,} jobs are "
        "inserted; median time of a page as the view fetches it."
    )
    return Section("Jobs by cursor", f"{what}\n\n{table(head, rows)}")


def _walk() -> dict[str, float]:
    import django

    django.setup()
    from django.db import connection

    from database.keyset import newest_first
    from jobs.models import Job

    _fill()
    known = set(Job.objects.values_list("pk", flat=True))
    cursor: str | None = None
    times: list[float] = []
    seen: list[str] = []
    while True:
        if len(times) % 5 == 0 and len(times) < INSERTED * 5:
            Job.objects.create(kind="thumbnail")
        start = time.perf_counter()
        page = newest_first(Job.objects.all(), columns=("created_at", "id"), cursor=cursor, size=PAGE)
        times.append(time.perf_counter() - start)
        seen += [job.pk for job in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            break
    connection.close()
    return {
        "first_ms": statistics.median(times[:SAMPLE]) * 1000,
        "last_ms": statistics.median(times[-SAMPLE - 1 : -1]) * 1000,
        "repeats": len(seen) - len(set(seen)),
        "gaps": len(known - set(seen)),
    }


def _fill() -> None:
    """Rows as a foreign writer leaves them: many share a time, and times have no fractions."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER logbook_jobs_insert")
            cursor.execute(
                f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {JOBS})
                INSERT INTO jobs (id, kind, status, created_at)
                SELECT printf('%08x-0000-4000-8000-000000000000', (i * 2654435761) % 4294967296), 'thumbnail',
                       'completed', strftime('%Y-%m-%d %H:%M:%S', '2026-01-01', (i / 7) || ' seconds') FROM n"""
            )
            cursor.execute("ANALYZE")
        else:
            cursor.execute("ALTER TABLE jobs DISABLE TRIGGER logbook_jobs_trigger")
            cursor.execute(
                f"""INSERT INTO jobs (id, kind, status, created_at)
                SELECT gen_random_uuid()::text, 'thumbnail', 'completed',
                       timestamptz '2026-01-01' + (i / 7) * interval '1 second' FROM generate_series(1, {JOBS}) AS i"""
            )
            cursor.execute("VACUUM ANALYZE jobs")


if __name__ == "__main__":
    json.dump(_walk(), sys.stdout)
