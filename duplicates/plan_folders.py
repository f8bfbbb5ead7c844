"""What stands right inside a folder, by the index: how many files, and whether some are another file's side-car."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import connections

from duplicates.plan_storing import FolderKey
from libraries.path_order import between, bounds_of, by_path

#: Endings of files that belong to the one beside them that has the same name (`duplicates.plan_warnings`).
SIDE_CARS = frozenset({"xmp", "aae", "mov", "thm", "srt", "json"})
PAGE = 500
#: Folders that are taken over from PostgreSQL at a time.
FETCHED = 2_000

#: On PostgreSQL, where each question takes its way to a server, going through the libraries once is quicker than asking
#: for more folders than this.
MOST_WALKED = 1_000

#: What is cut off at the end is the name.
_ALL_FOLDERS = """
SELECT library_id, SUBSTR(path, 1, GREATEST(LENGTH(path) - 1, 0)), files, has_side_cars
  FROM (SELECT library_id, RTRIM(relative_path, REPLACE(relative_path, '/', '')) AS path, COUNT(*) AS files,
               BOOL_OR(LOWER(SUBSTRING(relative_path FROM '\\.([^./]*)$')) = ANY(%s)) AS has_side_cars
          FROM library_files WHERE library_id = ANY(%s) AND NOT is_missing
         GROUP BY 1, 2) folders"""


@dataclass(slots=True)
class Inside:
    files: int = 0
    has_side_cars: bool = False


def look_into(
    folders: Iterable[FolderKey], using: str, tick: Callable[[], None] = lambda: None
) -> dict[FolderKey, Inside]:
    """What the index knows right inside each folder."""
    wanted = list(folders)
    if connections[using].vendor == "sqlite" or len(wanted) <= MOST_WALKED:
        found = {}
        for number, key in enumerate(wanted):
            found[key] = _walk(key, using)
            if number % 100 == 0:
                tick()
        return found
    return _all_at_once(wanted, using, tick)


def _walk(key: FolderKey, using: str) -> Inside:
    """Along the index of paths, leaping over what lies in folders further down."""
    library, folder = key
    prefix, end = bounds_of(folder)
    inside, start = Inside(), prefix
    while True:
        paths = _paths(library, start, end, using)
        for path in paths:
            if path < start:
                continue  # in the folder that was leapt over
            name, slash, _rest = path[len(prefix) :].partition("/")
            if slash:
                start = f"{prefix}{name}0"
                continue
            inside.files += 1
            inside.has_side_cars = inside.has_side_cars or _ending(name) in SIDE_CARS
            start = f"{path}\x01"
        if len(paths) < PAGE:
            return inside


def _paths(library: int, start: str, end: str | None, using: str) -> list[str]:
    vendor = connections[using].vendor
    which, values = between(library, start, end, vendor)
    with connections[using].cursor() as cursor:
        cursor.execute(
            f"SELECT relative_path FROM library_files WHERE {which} AND NOT is_missing"
            f" ORDER BY {by_path(vendor)} LIMIT {PAGE}",
            values,
        )
        return [path for (path,) in cursor.fetchall()]


def _all_at_once(wanted: list[FolderKey], using: str, tick: Callable[[], None]) -> dict[FolderKey, Inside]:
    found = {key: Inside() for key in wanted}
    libraries = sorted({library for library, _folder in wanted})
    # The server keeps the answer: it has every folder of the libraries, and the plan may be about a few.
    with connections[using].chunked_cursor() as cursor:
        cursor.execute(_ALL_FOLDERS, [sorted(SIDE_CARS), libraries])
        while rows := cursor.fetchmany(FETCHED):
            for library, folder, files, has_side_cars in rows:
                if (library, folder) in found:
                    found[library, folder] = Inside(files, bool(has_side_cars))
            tick()
    return found


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""
