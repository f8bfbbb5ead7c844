"""What does the search for folders that share content take over 1,000,000 files, and does its memory grow with them?"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.growing import HOW, Carried, both_sizes, carried_out, main, told
from benchmarks.options import Options
from benchmarks.report import Section
from benchmarks.synthetic_index import File, fill

FILES, QUICK_FILES = 1_000_000, 50_000
#: A tree is 20 folders of 50 files in four parts; of ten trees in a row six have something of others.
TREE, FOLDER, FOLDERS_OF_PART, ROW = 1_000, 50, 5, 10
#: Of files with a content that lies somewhere else as well: one in so many.
SCATTERED = 10
#: A row of ten trees has a whole copy, a partial one, one part of another, twenty folders that were renamed and two
#: parts that lie in the same tree once more.
PAIRS_OF_ROW = 1 + 1 + 1 + 20 + 2


def measure(options: Options) -> Iterator[Section]:
    size = QUICK_FILES if options.is_quick else FILES
    found = list(both_sizes("benchmarks.folders", size))
    what = (
        f"The search that the page of folders asks for, over {size:,} files and over a tenth of them: trees of "
        f"{TREE:,} files, {FOLDER} in a folder, in three libraries. Of ten trees one is a whole copy of another, one "
        "has three quarters of one, one has one part of one, one is a copy with other folder names, one holds half of "
        "itself twice, and in one every tenth file lies somewhere else, too. Three contents lie in every third folder."
    )
    yield Section("Folder overlap", f"{what} {HOW}\n\n{told(found, 'files', 'pairs')}")


# --- In a process of its own --------------------------------------------------------------------------------
def _files(count: int) -> Iterator[File]:
    for number in range(count):
        yield _file(number, count)


def _file(number: int, count: int) -> File:
    tree, place = divmod(number, TREE)
    kind, part = tree % ROW, place // (FOLDER * FOLDERS_OF_PART)
    origin, content, top, name = tree, number, f"year {tree // 100}/tree {tree}", "event"
    if kind in (4, 5, 6) or (kind == 7 and part == 0):
        origin = tree - 4
        # Of a partial copy, one file in four is its own.
        content = number if kind == 5 and place % 4 == 3 else number - 4 * TREE
        name = "renamed event" if kind == 6 else name
    elif kind == 8 and place >= TREE // 2:
        place, part, content, top = place - TREE // 2, part - 2, number - TREE // 2, f"{top}/backup"
    elif kind == 9 and place % SCATTERED == 0:
        content = number * 7_919 % count
    folder = place // FOLDER
    if place % FOLDER == 0:
        content = -1 - folder % 3
    library = 0 if kind < 4 else 1 if kind < 8 else 2
    return File(library, f"{top}/part {part}/{name} {origin}-{folder}/file {place}.jpg", content)


def _search(count: int) -> Carried:
    from duplicates.models import FolderSearch
    from duplicates.overlapping import search_now

    def search() -> int:
        done = search_now("benchmark")
        assert done.status == "completed", done.error_message
        return done.pair_count

    found = carried_out(FolderSearch.objects.filter(status="running"), search)
    assert found.made >= count // (TREE * ROW) * PAIRS_OF_ROW, found
    return found


if __name__ == "__main__":
    main(sys.argv[1:], lambda count: fill(_files(count)), _search)
