"""`python -m benchmarks [NAME …]`: run all benchmarks, or those named, and write what they found into RESULTS.md."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import jobs_pages
from benchmarks.report import Section, write

BENCHMARKS: dict[str, Callable[[], Section]] = {"jobs_pages": jobs_pages.measure}


def main(names: list[str]) -> None:
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        section = BENCHMARKS[name]()
        write(section)
        print(f"## {section.title}\n\n{section.body}\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
