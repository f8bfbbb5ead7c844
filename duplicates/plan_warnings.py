"""What a person should know of a plan before anything is done, worked out from the index alone: no disk is touched.
Whether folders let files go they were asked before, by `duplicates.folder_asking`.

A warning is stored as an object with its `code` and its figures; the words are found when somebody reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import connections

from database.portions import portions
from duplicates.facts import Place, read_places
from duplicates.filtering import MEDIA
from duplicates.folder_asking import Answers
from duplicates.models import Action, Plan, PlanFile, PlanFolder
from duplicates.plan_folders import SIDE_CARS
from duplicates.plan_storing import FolderKey, Loss
from libraries.models import HashRun, LibraryState

#: How many paths of each kind are named.
EXAMPLES = 3
PAGE = 2_000
#: Where no hash job has measured anything yet: a hard disk reads about this much.
ASSUMED_BYTES_PER_SECOND = 100_000_000
#: A shorter measurement says nothing.
LEAST_BUSY_SECONDS = 1.0
#: A changed plan up to this size has its warnings worked out anew; a larger one says that they are older.
MOST_ANEW = 5_000

Warned = dict[str, Any]
Examples = list[dict[str, str]]

_WITH_SIDE_CARS = frozenset({*MEDIA["image"], *MEDIA["video"]})
#: Beside a photograph a short film of the same name is its moving half; beside a film it is another film.
_LIVE_PHOTO = frozenset({"jpg", "jpeg", "heic", "heif"})
#: Both halves, as one is removed for the other.
_VICTIMS = f"""
SELECT v.id, v.library_id, v.relative_path, k.library_id, k.relative_path, v.device, k.device
  FROM plan_files v JOIN plan_files k ON k.id = v.keeper_id
 WHERE v.plan_id = %s AND v.role = 'remove' AND NOT v.is_out AND v.id > %s
 ORDER BY v.id LIMIT {PAGE}"""
_READ_AGAIN = """
SELECT (SELECT SUM(v.size_bytes) FROM plan_files v
         WHERE v.plan_id = %s AND v.role = 'remove' AND NOT v.is_out),
       (SELECT SUM(k.size_bytes) FROM plan_files k WHERE k.plan_id = %s AND k.role = 'keep'
           AND EXISTS (SELECT 1 FROM plan_files v WHERE v.keeper_id = k.id AND NOT v.is_out))"""


class _Victim(NamedTuple):
    id: int
    library: int
    path: str
    keeper_library: int
    keeper_path: str
    device: int | None
    keeper_device: int | None


@dataclass
class _Found:
    """How many, and the first of them."""

    count: int = 0
    examples: Examples = field(default_factory=list)

    def add(self, place: Place | None, path: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append({"library": place.name if place else "", "path": path})

    def warning(self, code: str) -> list[Warned]:
        return [{"code": code, "count": self.count, "examples": self.examples}] if self.count else []


@dataclass(frozen=True)
class FolderFigures:
    """What is known of the folders that lose files."""

    #: Those from which none can be taken, and how many files of the plan lie there.
    held: Sequence[FolderKey]
    held_files: int
    #: How many have not said it.
    unknown: int
    silent: Sequence[FolderKey] = ()

    @classmethod
    def of(cls, losses: Mapping[FolderKey, Loss], answers: Answers) -> FolderFigures:
        rows = ((key, loss.files, answers.is_writable.get(key)) for key, loss in losses.items())
        return cls._counted(rows, answers.silent)

    @classmethod
    def of_rows(cls, rows: Iterable[PlanFolder]) -> FolderFigures:
        return cls._counted(((row.library_id, row.folder), row.remove_count, row.is_writable) for row in rows)

    @classmethod
    def _counted(
        cls, rows: Iterable[tuple[FolderKey, int, bool | None]], silent: Sequence[FolderKey] = ()
    ) -> FolderFigures:
        held, files, unknown = [], 0, 0
        for key, going, is_writable in rows:
            unknown += is_writable is None
            if is_writable is False:
                held.append(key)
                files += going
        return cls(sorted(held), files, unknown, sorted(silent))


def work_out(
    plan: Plan,
    using: str,
    *,
    emptied: tuple[int, Sequence[FolderKey]],
    folders: FolderFigures,
    beside: AbstractSet[FolderKey] | None = None,
    tick: Callable[[], None] = lambda: None,
) -> list[Warned]:
    """All warnings of a plan. `emptied` are the folders that lose every file, counted and the first of them; `beside`
    those in which there are side-cars at all, where somebody has looked."""
    places = read_places(using)
    seen = _look_at_victims(plan, places, using, beside, tick)
    return [
        *_about_libraries(seen.by_library, places),
        *_about_folders(folders, places),
        *seen.other_filesystem.warning("hardlink_filesystems"),
        *seen.other_library.warning("hardlink_libraries" if plan.action == Action.HARDLINK else "keeper_elsewhere"),
        *seen.side_cars.warning("side_cars"),
        *_about_emptied(emptied, places),
        *_about_left_out(plan.left_out),
        *_about_reading(plan, using),
    ]


def work_out_anew(plan: Plan, using: str) -> list[Warned]:
    """After a change. Those of a large plan stay as they were, and say so."""
    if plan.remove_count > MOST_ANEW:
        return [{"code": "older"}, *(each for each in plan.warnings if each.get("code") != "older")]
    rows = list(
        PlanFolder.objects.using(using).filter(plan_id=plan.pk, remove_count__gt=0).order_by("library_id", "folder")
    )
    lost = [(row.library_id, row.folder) for row in rows if row.remove_count >= row.file_count]
    found = work_out(plan, using, emptied=(len(lost), lost[:EXAMPLES]), folders=FolderFigures.of_rows(rows))
    # Nobody asks the disks again for a change on a page: what did not answer then is not known now.
    return [*found, *(each for each in plan.warnings if rows and each.get("code") == "folders_silent")]


# --- File by file -----------------------------------------------------------------------------------------
@dataclass
class _Seen:
    by_library: Counter[int] = field(default_factory=Counter)
    other_library: _Found = field(default_factory=_Found)
    other_filesystem: _Found = field(default_factory=_Found)
    side_cars: _Found = field(default_factory=_Found)


def _look_at_victims(
    plan: Plan,
    places: dict[int, Place],
    using: str,
    beside: AbstractSet[FolderKey] | None,
    tick: Callable[[], None],
) -> _Seen:
    seen, named = _Seen(), set[int]()
    for victims in _victims(plan.pk, using):
        tick()
        for victim in victims:
            place, other = places.get(victim.library), places.get(victim.keeper_library)
            seen.by_library[victim.library] += 1
            if victim.library != victim.keeper_library:
                seen.other_library.add(place, victim.path)
            if plan.action == Action.HARDLINK and not _shares_filesystem(victim, place, other):
                seen.other_filesystem.add(place, victim.path)
        for key, (library, path) in sorted(_side_cars(plan.pk, victims, using, beside).items()):
            if key not in named:
                named.add(key)
                seen.side_cars.add(places.get(library), path)
    return seen


def _victims(plan_id: int, using: str) -> Iterator[list[_Victim]]:
    after = 0
    while True:
        with connections[using].cursor() as cursor:
            cursor.execute(_VICTIMS, [plan_id, after])
            page = [_Victim(*row) for row in cursor.fetchall()]
        if page:
            yield page
            after = page[-1].id
        if len(page) < PAGE:
            return


def _shares_filesystem(victim: _Victim, place: Place | None, other: Place | None) -> bool:
    """By the filesystems' names where they are known: the numbers of devices change when disks are mounted anew."""
    mine = place.filesystem_of(victim.path) if place else ""
    theirs = other.filesystem_of(victim.keeper_path) if other else ""
    return mine == theirs if mine and theirs else victim.device == victim.keeper_device


# --- Side-cars --------------------------------------------------------------------------------------------
def _side_cars(
    plan_id: int, victims: Sequence[_Victim], using: str, beside: AbstractSet[FolderKey] | None
) -> dict[int, FolderKey]:
    """Present files that belong to a victim and don't go themselves: id → library and path."""
    wanted = [
        (victim.library, path)
        for victim in victims
        if beside is None or (victim.library, victim.path.rpartition("/")[0]) in beside
        for path in side_car_paths(victim.path)
    ]
    found = _present(sorted(set(wanted)), using)
    going = PlanFile.objects.using(using).filter(plan_id=plan_id, role="remove", is_out=False, file_id__in=list(found))
    for key in going.values_list("file_id", flat=True):
        del found[key]
    return found


def side_car_paths(path: str) -> list[str]:
    """Where side-cars of a picture or film would be: `a.xmp` and `a.jpg.xmp` for `a.jpg`."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem or ending.lower() not in _WITH_SIDE_CARS:
        return []
    endings = SIDE_CARS if ending.lower() in _LIVE_PHOTO else SIDE_CARS - {"mov"}
    names = [f"{start}.{form}" for start in (stem, name) for each in sorted(endings) for form in (each, each.upper())]
    return [f"{folder}{slash}{each}" for each in names if each != name]


#: PostgreSQL would rather go through all files for each portion than ask for each path by its index; the offset, which
#: skips nothing, keeps it from turning the question round.
_PRESENT = {
    "sqlite": (
        "(%s, %s)",
        # An outer one, as in `duplicates.facts`.
        "LEFT JOIN library_files f ON f.library_id = w.column1 AND f.relative_path = w.column2 AND NOT f.is_missing",
    ),
    "postgresql": (
        "(%s::bigint, %s::text)",
        "CROSS JOIN LATERAL (SELECT * FROM library_files l WHERE l.library_id = w.column1"
        " AND dedupfs_path_digest(l.relative_path) = dedupfs_path_digest(w.column2) AND NOT l.is_missing OFFSET 0) f",
    ),
}


def _present(paths: Sequence[FolderKey], using: str) -> dict[int, FolderKey]:
    found: dict[int, FolderKey] = {}
    marks, files = _PRESENT[connections[using].vendor]
    for asked in portions(paths, PAGE):
        with connections[using].cursor() as cursor:
            wanted = f"(VALUES {', '.join([marks] * len(asked))}) AS w"
            cursor.execute(
                f"SELECT f.id, f.library_id, f.relative_path FROM {wanted} {files}",
                [part for each in asked for part in each],
            )
            found |= {key: (library, path) for key, library, path in cursor.fetchall() if key is not None}
    return found


# --- By library, by folder, in all --------------------------------------------------------------------------
def _about_libraries(counts: Counter[int], places: dict[int, Place]) -> Iterator[Warned]:
    for key, count in sorted(counts.items()):
        place = places.get(key)
        if place is None:
            yield {"code": "library_gone", "count": count, "library": str(key)}
            continue
        figures = {"count": count, "library": place.name}
        if place.mount not in (LibraryState.Mount.PRESENT, LibraryState.Mount.UNKNOWN):
            yield {"code": "not_mounted", "mount": place.mount, **figures}
        elif place.mount == LibraryState.Mount.UNKNOWN:
            yield {"code": "not_seen", **figures}
        if place.is_writable is False:
            yield {"code": "not_writable", **figures}


def _about_folders(folders: FolderFigures, places: dict[int, Place]) -> Iterator[Warned]:
    if folders.held:
        examples = _named(folders.held, places)
        figures = {"count": len(folders.held), "files": folders.held_files, "unknown": folders.unknown}
        yield {"code": "folders_not_writable", **figures, "examples": examples}
    if folders.silent:
        examples = _named(folders.silent, places)
        yield {"code": "folders_silent", "count": len(folders.silent), "examples": examples}


def _about_emptied(emptied: tuple[int, Sequence[FolderKey]], places: dict[int, Place]) -> list[Warned]:
    count, first = emptied
    return [{"code": "emptied", "count": count, "examples": _named(first, places)}] if count else []


def _named(folders: Sequence[FolderKey], places: dict[int, Place]) -> Examples:
    return [
        {"library": places[library].name if library in places else "", "path": folder}
        for library, folder in folders[:EXAMPLES]
    ]


def _about_left_out(left_out: dict[str, int]) -> list[Warned]:
    return [{"code": "left_out", "why": code, "count": count} for code, count in sorted(left_out.items()) if count]


def _about_reading(plan: Plan, using: str) -> list[Warned]:
    with connections[using].cursor() as cursor:
        cursor.execute(_READ_AGAIN, [plan.pk, plan.pk])
        size = sum(int(each or 0) for each in cursor.fetchone())
    if not size:
        return []
    rate = _measured_rate(using)
    return [
        {
            "code": "reading",
            "bytes": size,
            "bytes_per_second": rate or ASSUMED_BYTES_PER_SECOND,
            "is_measured": rate > 0,
        }
    ]


def _measured_rate(using: str) -> int:
    """Of the last hash job that read for long enough; 0 where there is none."""
    runs = HashRun.objects.using(using).filter(busy_seconds__gte=LEAST_BUSY_SECONDS, bytes_done__gt=0)
    run = runs.order_by("-updated_at", "-pk").first()
    return 0 if run is None else max(round(run.bytes_done / run.busy_seconds), 1)
