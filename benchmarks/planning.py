"""What does a plan over 100,000 groups take, made with four rules, and does its memory grow with the groups?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.growing import HOW, Carried, both_sizes, carried_out, main, told
from benchmarks.options import Options
from benchmarks.report import Section
from benchmarks.synthetic_index import LIBRARIES, File, fill

GROUPS, QUICK_GROUPS = 100_000, 10_000
#: Groups whose first files lie in one folder, and so their second and third ones.
TOGETHER = 50


def measure(options: Options) -> Iterator[Section]:
    size = QUICK_GROUPS if options.is_quick else GROUPS
    found = list(both_sizes("benchmarks.planning", size))
    what = (
        f"A plan over {size:,} groups of three files, one in each of three libraries, and over a tenth of them; "
        f"{TOGETHER} files in a folder, side-car files in every tenth. Four rules: keep in a folder, never touch a "
        "folder, rather not keep names of a pattern, keep the oldest. The whole dry run: reasons for every file, "
        "totals, folders and warnings, all stored."
    )
    yield Section("Planning", f"{what} {HOW}\n\n{told(found, 'groups', 'files that go')}")


# --- In a process of its own --------------------------------------------------------------------------------
def _files(groups: int) -> Iterator[File]:
    for group in range(groups):
        folder = group // TOGETHER
        # Beside the pictures of every tenth folder lies what a program has written about the one before.
        stem, ending = (f"IMG_{group - 1}", "xmp") if group % (10 * TOGETHER) == 1 else (f"IMG_{group}", "jpg")
        yield File(0, f"{'albums' if group % 3 else 'inbox'}/{folder}/{stem}.{ending}", group)
        yield File(1, f"phone/{folder}/{stem}{' (1)' if group % 2 else ''}.{ending}", group)
        yield File(2, f"{'old' if group % 10 else 'vault'}/{folder}/{stem}.{ending}", group)


def _rules() -> list[dict[str, Any]]:
    from libraries.models import LibraryRoot

    albums, _, vault = (LibraryRoot.objects.get(name=name).pk for name in LIBRARIES)
    return [
        {"kind": "keep_in", "folders": [{"library": albums, "path": "albums"}]},
        {"kind": "never_touch", "folders": [{"library": vault, "path": "vault"}]},
        {"kind": "avoid_name", "pattern": "* (?).*"},
        {"kind": "keep_oldest"},
    ]


def _plan(groups: int) -> Carried:
    from duplicates.planning import checked, plan_now
    from jobs.models import Job

    rules = _rules()

    def plan() -> int:
        made = plan_now(checked("trash", rules), actor="benchmark")
        assert made.status == "ready", made.job and made.job.error_message
        assert made.group_count == groups, made.group_count
        return made.remove_count

    return carried_out(Job.objects.filter(status="running"), plan)


if __name__ == "__main__":
    main(sys.argv[1:], lambda groups: fill(_files(groups)), _plan)
