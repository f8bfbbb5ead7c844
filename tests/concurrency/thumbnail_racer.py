"""One of several processes that use the thumbnail queues at the same moment; prints what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import django

django.setup()

from jobs.executing import drain  # noqa: E402
from libraries.models import LibraryFile  # noqa: E402
from tests.concurrency.gate import wait_for  # noqa: E402
from thumbnails import cleaning, rendering  # noqa: E402
from thumbnails.admitting import QueueFull, request  # noqa: E402
from thumbnails.formats import media_of  # noqa: E402
from thumbnails.models import Thumbnail  # noqa: E402

FILES = list(LibraryFile.objects.order_by("pk"))  # connected before the race starts
media_of("a.jpg")  # which asks a process once


def ask_for_one(number: int) -> None:
    """Each for another file, until it was let in eight times: who gets in looks how many are in, and leaves."""
    for _ in range(8):
        while not _let_in(FILES[number]):
            pass
        print(Thumbnail.objects.count(), flush=True)
        Thumbnail.objects.filter(file=FILES[number]).delete()


def _let_in(file: LibraryFile) -> bool:
    try:
        request([file])
    except QueueFull:
        return False
    return True


def ask_for_all(_: int) -> None:
    try:
        print(len(request(FILES)), flush=True)
    except QueueFull as full:
        print(len(full.asked), flush=True)


def claim(_: int) -> None:
    """Hold rows for a moment, and print how many of each media type run meanwhile."""
    while Thumbnail.objects.filter(status__in=("pending", "running")).exists():
        lease = rendering.claimable().claim("racer")
        if lease is None:
            time.sleep(0.002)
            continue
        kind = lease.row.media_type
        print(kind, Thumbnail.objects.filter(status="running", media_type=kind).count(), flush=True)
        lease.finish("ready", width=1, height=1, bytes_size=1)


def work(_: int) -> None:
    """Carry out everything there is."""
    print(drain("thumbnails"), flush=True)
    print(drain(cleaning.QUEUE), flush=True)


def schedule(_: int) -> None:
    for number in range(20):
        cleaning.schedule(f"file:{number}", 0)


if __name__ == "__main__":
    verb, argument, gate = globals()[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3])
    wait_for(gate)
    verb(argument)
