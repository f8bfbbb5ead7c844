"""`python -m benchmarks [NAME …]`: run all benchmarks, or those named, and write what they found into RESULTS.md."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import (
    acting,
    answers,
    bare_work,
    clients,
    finding,
    folders,
    group_pages,
    jobs_pages,
    memory,
    pages,
    planning,
    profiling,
    thumbnail_queue,
    thumbnails,
)
from benchmarks.options import Options, default_work
from benchmarks.report import Section, write

BENCHMARKS: dict[str, Callable[[Options], Iterable[Section]]] = {
    "jobs_pages": lambda _: [jobs_pages.measure()],
    "group_pages": lambda options: group_pages.measure(is_quick=options.is_quick),
    "folders": folders.measure,
    "planning": planning.measure,
    "pages": pages.measure,
    "clients": clients.measure,
    "acting": acting.measure,
    "answers": answers.measure,
    "finding": finding.measure,
    "bare_work": bare_work.measure,
    "memory": memory.measure,
    "profiling": profiling.measure,
    "thumbnails": lambda options: thumbnails.measure(is_quick=options.is_quick),
    "thumbnail_queue": thumbnail_queue.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all when none is named")
    parser.add_argument("--trees", default="a,b,c", help="which of a, b and c to race on (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=0, help="interleaved rounds (default: 3, quick: 1)")
    parser.add_argument("--work", type=Path, default=default_work(), help="folder of the trees, or BENCH_WORK")
    parser.add_argument("--quick", action="store_true", help="one round, nothing cold, no 2,000,000 files")
    parser.add_argument("--dry", action="store_true", help="print what was found and leave RESULTS.md alone")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    rounds = given.rounds or (1 if given.quick else 3)
    options = Options(given.work.absolute(), tuple(given.trees.split(",")), rounds, is_quick=given.quick)
    options.work.mkdir(parents=True, exist_ok=True)
    for name in given.names or BENCHMARKS:
        for section in BENCHMARKS[name](options):
            if not given.dry:
                write(section)
            print(f"## {section.title}\n\n{section.body}\n", flush=True)


if __name__ == "__main__":
    main()
