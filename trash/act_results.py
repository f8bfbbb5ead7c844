"""What came of an act: where its files are now, why others were skipped, and each of them, page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from duplicates.facts import Place, read_places
from duplicates.plan_words import library_name
from frame.slow_figures import kept_or_counted
from libraries.excluding import TRASH
from libraries.names import to_display
from trash import choosing_items
from trash.models import Act, TrashItem
from trash.reason_words import reason_words

#: Of files that were to leave a trash, where there is a reason beside it.
_NOT_DONE = (TrashItem.Status.TRASHED, TrashItem.Status.EMPTIED)


@dataclass(frozen=True)
class Reason:
    code: str
    count: int

    @property
    def words(self) -> str:
        return reason_words(self.code)


@dataclass(frozen=True)
class Where:
    """One trash that holds files of an act."""

    library: str
    path: str
    count: int


@dataclass(frozen=True)
class Results:
    reasons: tuple[Reason, ...]
    places: tuple[Where, ...]


def items_of(act: Act) -> QuerySet[TrashItem]:
    """Every file that an act did something to, or would have."""
    if act.verb == Act.Verb.ACT:
        return TrashItem.objects.filter(act=act)
    return choosing_items.chosen(act.selection).filter(left_by=act)


def results_of(act: Act) -> Results:
    """Counted once the act has ended; what took long is kept while nothing changes."""
    key = f"act-results-{act.pk}-{act.status}-{act.done_count}-{act.skipped_count}-{act.trashed_count}"
    return kept_or_counted(key, lambda: _counted(act), is_keyed=True)


def _counted(act: Act) -> Results:
    rows = items_of(act).order_by().values_list("status", "reason_code", "library_id", "trash_folder")
    reasons: Counter[str] = Counter()
    places: Counter[tuple[int, str]] = Counter()
    for status, code, library, folder, count in rows.annotate(count=Count("pk")):
        if is_skipped(act, status, code):
            reasons[code] += count
        elif status == TrashItem.Status.TRASHED and act.verb == Act.Verb.ACT:
            places[library, folder] += count
    libraries = read_places()
    return Results(
        tuple(Reason(code, count) for code, count in reasons.most_common()),
        tuple(_where(library, folder, count, libraries) for (library, folder), count in places.most_common()),
    )


def is_skipped(act: Act, status: str, code: str) -> bool:
    """A file that could not be put back or removed says why: it lies in the trash still, or had left it before."""
    if act.verb == Act.Verb.ACT:
        return status == TrashItem.Status.SKIPPED
    return status in _NOT_DONE and bool(code)


def _where(library: int, folder: str, count: int, libraries: dict[int, Place]) -> Where:
    root = to_display(libraries[library].root_path) if library in libraries else ""
    path = "/".join(part for part in (root.rstrip("/"), to_display(folder), TRASH) if part)
    return Where(library_name(library, libraries), path, count)


# --- One by one -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownItem:
    item: TrashItem
    library: str

    @property
    def path(self) -> str:
        return to_display(self.item.plan_file.relative_path)

    @property
    def words(self) -> str:
        """Why it was skipped; empty where it was not."""
        return reason_words(self.item.reason_code) if self.item.reason_code else ""

    @property
    def detail(self) -> str:
        return to_display(self.item.reason)


def only_skipped(act: Act, code: str = "") -> QuerySet[TrashItem]:
    rows = items_of(act)
    if act.verb == Act.Verb.ACT:
        rows = rows.filter(status=TrashItem.Status.SKIPPED)
    else:
        rows = rows.filter(status__in=_NOT_DONE).exclude(reason_code="")
    return rows.filter(reason_code=code) if code else rows


def page_after(rows: QuerySet[TrashItem], after: int, size: int) -> tuple[list[TrashItem], int | None]:
    """By the plan's order, which an act's files have an index for; and what the next page comes after."""
    found = list(rows.select_related("plan_file").filter(plan_file__gt=after).order_by("plan_file")[: size + 1])
    page = found[:size]
    return page, page[-1].plan_file_id if len(found) > size else None


def as_items(rows: Sequence[TrashItem], libraries: dict[int, Place]) -> list[ShownItem]:
    return [ShownItem(row, library_name(row.library_id, libraries)) for row in rows]
