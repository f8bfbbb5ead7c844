"""What does a page of groups cost at 5,000,000 files, and what does their summary cost while files are hashed?"""

from __future__ import annotations

import http.client
import json
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.goals import Goal
from benchmarks.report import Section, table
from benchmarks.scratch import installation, run
from benchmarks.synthetic_index import File, digest, fill

SIZES = {"sqlite": 5_000_000, "postgresql": 1_000_000}
PAGE, TRIES = 100, 21
REHASHED, BATCH = 100_000, 2_000
PAGE_MS, DEPTH = Goal(1.0, 3.0), Goal(2.0, 3.0)
SECRET = "dfs_" + "b" * 40
#: Of the speed without a summary; a share, so more is better.
UPKEEP_REACH, UPKEEP_LEAST = 0.75, 0.6


def measure(*, is_quick: bool) -> Iterator[Section]:
    pages: list[list[str]] = []
    upkeep: list[list[str]] = []
    for vendor, size in SIZES.items():
        files = size // 50 if is_quick else size
        with installation(vendor) as environment:
            found = json.loads(run("benchmarks.group_pages", environment, str(files)))
        pages += [_page_row(vendor, files, order, figures) for order, figures in found["pages"].items()]
        upkeep.append(_upkeep_row(vendor, files, found))
    head = ["database, files", "order", "first ms", "middle ms", "last ms", "last/first", "last by HTTP, ms", "goal"]
    what = (
        f"Groups of a synthetic index, {PAGE} a page, median of {TRIES}: the statement of a page as the list runs it, "
        "at the beginning, in the middle and at the end of the walk. By HTTP: the whole answer of the API to a token."
    )
    yield Section("Pages of groups", f"{what}\n\n{table(head, pages)}")
    head = ["database, files", "recount s", "without, files/s", "with, files/s", "share", "goal", "peak MB"]
    what = (
        f"{REHASHED:,} files get another digest, stored in batches of {BATCH:,} as a hash job does: without the "
        "triggers, and with them and the counting at the end. Recount: everything counted anew."
    )
    yield Section("Upkeep of the summary", f"{what}\n\n{table(head, upkeep)}")


def _page_row(vendor: str, files: int, order: str, figures: dict[str, float]) -> list[str]:
    first, middle, last = (figures[name] for name in ("first", "middle", "last"))
    worst = max(first, middle, last)
    verdict = f"{PAGE_MS}: {PAGE_MS.judge(worst)}; depth {DEPTH}: {DEPTH.judge(last / first)}"
    return [
        f"{vendor}, {files:,}", order, f"{first:.2f}", f"{middle:.2f}", f"{last:.2f}", f"**{last / first:.2f}**",
        f"{figures['http']:.1f}", verdict,
    ]  # fmt: skip


def _upkeep_row(vendor: str, files: int, found: dict[str, Any]) -> list[str]:
    share = found["with"] / found["without"]
    verdict = "reached" if share >= UPKEEP_REACH else "allowed" if share >= UPKEEP_LEAST else "MISSED"
    return [
        f"{vendor}, {files:,}", f"{found['recount']:.1f}", f"{found['without']:,.0f}", f"{found['with']:,.0f}",
        f"**{share:.2f}**", f"{UPKEEP_REACH}, never below {UPKEEP_LEAST}: {verdict}", f"{found['peak_mb']:.0f}",
    ]  # fmt: skip


# --- In a process of its own, on a database of its own ------------------------------------------------------
def _look(files: int) -> dict[str, Any]:
    import django

    django.setup()
    from duplicates import summary

    fill(_files(files))
    start = time.perf_counter()
    summary.bring_up_to_date()
    recounted = time.perf_counter() - start
    with _served() as port:
        pages = {order: _pages(order, port) for order in ("copies", "reclaimable", "newest", "size")}
    found = {"recount": recounted, "pages": pages, "with": _rehash(files, 1, counts=True)}
    _drop_triggers()
    found["without"] = _rehash(files, 2, counts=False)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return found


def _files(count: int) -> Iterator[File]:
    """A third of the files is in groups of two to five, spread over three libraries and a thousand folders each."""
    for number in range(1, count + 1):
        # Of six files in a row four stand for themselves; the others share a content in groups of two to five.
        content = number if number % 6 < 4 else -(number // (12 + 6 * (number % 4)))
        yield File(number % 3, f"folder {number % 1000}/file {number}.jpg", content)


def _pages(order: str, port: int) -> dict[str, float]:
    from duplicates.listing import Filter, page
    from duplicates.models import DuplicateGroup

    everything = Filter(least_bytes=0)
    count = DuplicateGroup.objects.count()
    cursors = {"first": None, "middle": _cursor_at(order, count // 2), "last": _cursor_at(order, count - PAGE - 1)}
    found = {}
    for place, cursor in cursors.items():
        page(everything, order, cursor, PAGE)
        found[place] = _statement_ms(everything, order, cursor)
    address = f"/api/v1/duplicates/groups?order={order}&limit={PAGE}&cursor={cursors['last']}"
    found["http"] = statistics.median([_fetch(port, address) for _ in range(TRIES)]) * 1000
    return found


def _fetch(port: int, address: str) -> float:
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", address, headers={"Authorization": f"Bearer {SECRET}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    took = time.perf_counter() - start
    assert answer.status == 200, body
    assert len(json.loads(body)["items"]) == PAGE
    return took


@contextmanager
def _served() -> Iterator[int]:
    """The web server as `manage.py up` starts it, on a free port."""
    from accounts.models import ApiToken, Role, User, digest_of

    person = User.objects.create_user("bench", role=Role.VIEWER)
    ApiToken.objects.create(user=person, name="bench", digest=digest_of(SECRET), hint="bench")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{port}", "-k", "gthread", "--threads", "4",
               "--log-level", "error", "dedupfs_site.wsgi"]  # fmt: skip
    with subprocess.Popen(command) as server:
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.1)
            yield port
        finally:
            server.terminate()


def _statement_ms(everything: Any, order: str, cursor: str | None) -> float:
    """The page's own statement, without what Django makes of its rows."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from duplicates.listing import page

    with CaptureQueriesContext(connection) as queries:
        page(everything, order, cursor, PAGE)
    sql = next(each["sql"] for each in queries.captured_queries if "duplicate_groups" in each["sql"])
    times = []
    with connection.cursor() as raw:
        for _ in range(TRIES):
            start = time.perf_counter()
            raw.execute(sql)
            raw.fetchall()
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def _cursor_at(name: str, number: int) -> str:
    from duplicates.listing import ORDERS
    from duplicates.models import DuplicateGroup

    order = ORDERS[name]
    return order.cursor(order.place_of(DuplicateGroup.objects.order_by(*order.columns)[number]))


def _rehash(files: int, salt: int, *, counts: bool) -> float:
    """Files a second, stored as a hash job stores them; the groups are counted at its end."""
    from django.db import connection

    from database.routing import EXECUTOR
    from duplicates import summary
    from jobs.enforcing import transaction_on
    from libraries.candidates import Candidate
    from libraries.hash_storing import HashStore, Results

    ids = list(range(salt, files, max(files // REHASHED, 1)))[:REHASHED]
    with connection.cursor() as cursor:
        marks = ", ".join(map(str, ids))
        cursor.execute(f"UPDATE library_files SET hash_claim_token = 'bench' WHERE id IN ({marks})")
        cursor.execute(f"SELECT id, size_bytes, mtime_ns FROM library_files WHERE id IN ({marks}) ORDER BY id")
        rows = [Candidate(key, 1, "", size, mtime, None, None, None, 1, None, True) for key, size, mtime in cursor]
    # As redundant as the index is: of three files one shares its content with another one. Groups come and go.
    contents = (f"{salt} {number // 6 if number % 3 == 0 else -number}" for number in range(len(rows)))
    read: list[tuple[Candidate, bytes, bytes | None]] = [
        (row, digest(content), None) for row, content in zip(rows, contents, strict=True)
    ]
    store = HashStore("bench")
    start = time.perf_counter()
    for begin in range(0, len(read), BATCH):
        with transaction_on("hash"):
            store.store(Results(digests=read[begin : begin + BATCH]), "blake3")
    if counts:
        summary.bring_up_to_date(EXECUTOR)
    return len(read) / (time.perf_counter() - start)


def _drop_triggers() -> None:
    from django.db import connection

    from duplicates.objects import OBJECTS

    with connection.cursor() as cursor:
        for each in OBJECTS:
            if each.vendor == connection.vendor and each.kind == "TRIGGER" and "note" in each.name:
                cursor.execute(each.drop)


if __name__ == "__main__":
    json.dump(_look(int(sys.argv[1])), sys.stdout)
