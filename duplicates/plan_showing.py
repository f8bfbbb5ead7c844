"""Plans as pages show them: what was asked for, how far it is, what it warns of, and its files as blocks of a diff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from duplicates.facts import Place, read_places
from duplicates.models import Plan, PlanFile, PlanFolder, group_key
from duplicates.path_difference import Part, differences
from duplicates.plan_changing import DISCARDABLE
from duplicates.plan_words import ACTION_WORDS, ShownWarning, described, filter_words, library_name, total_words
from duplicates.showing import media_of
from frame.templatetags.human import count_words
from jobs.models import Job
from jobs.showing import ShownJob
from libraries.names import to_display
from thumbnails.showing import Picture, pictures

PATH_LETTERS = 240


# --- One plan ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownPlan:
    """A plan, the job that makes it, and the time at which both were read."""

    plan: Plan
    now: datetime
    libraries: dict[int, Place]

    @property
    def job(self) -> ShownJob | None:
        return ShownJob(self.plan.job, self.now) if self.plan.job is not None else None

    @property
    def state(self) -> str:
        """The plan's status; while it is planned, what becomes of its job."""
        if self.plan.status != Plan.Status.PLANNING:
            return self.plan.status
        job = self.plan.job
        return "failed" if job is None or job.status == Job.Status.COMPLETED else job.status

    @property
    def is_live(self) -> bool:
        return self.plan.status == Plan.Status.PLANNING and self.job is not None and self.job.is_live

    @property
    def has_failed(self) -> bool:
        """It is not ready and never will be."""
        return self.plan.status == Plan.Status.PLANNING and not self.is_live

    @property
    def is_ready(self) -> bool:
        return self.plan.status == Plan.Status.READY

    @property
    def can_discard(self) -> bool:
        return self.plan.status in DISCARDABLE

    @property
    def has_rows(self) -> bool:
        return self.plan.status != Plan.Status.PLANNING and self.plan.group_count + self.plan.keep_count > 0

    @property
    def action_words(self) -> str:
        return str(ACTION_WORDS.get(self.plan.action, self.plan.action))

    @property
    def by(self) -> str:
        """By what it was decided."""
        if self.plan.rule_set_name:
            return self.plan.rule_set_name
        return _("rules without a name") if self.plan.rules else _("chosen by hand")

    @property
    def what(self) -> str:
        """Which groups, in words."""
        if self.plan.group_keys:
            words = ngettext("%(count)s marked group", "%(count)s marked groups", len(self.plan.group_keys))
            return words % {"count": count_words(len(self.plan.group_keys))}
        return filter_words(self.plan.filter, self.libraries)

    @property
    def total_words(self) -> str:
        """What would be done, in one line: the sentence a person would agree to."""
        return total_words(self.plan)

    @property
    def warnings(self) -> list[ShownWarning]:
        found = self.plan.warnings if isinstance(self.plan.warnings, list) else []
        return [each for each in map(described, found) if each is not None]


def shown(plans: QuerySet[Plan]) -> QuerySet[Plan]:
    """Read plans together with their jobs and the time at which they are read."""
    return plans.select_related("job").annotate(now=Now())


def as_shown(plans: Sequence[Plan]) -> list[ShownPlan]:
    """What `shown` read, ready for a template."""
    libraries = read_places() if plans else {}
    return [ShownPlan(plan, plan.now, libraries) for plan in plans]  # type: ignore[attr-defined]


# --- Its files, as blocks of a diff -----------------------------------------------------------------------
@dataclass(frozen=True)
class ShownItem:
    item: PlanFile
    parts: tuple[Part, ...]
    library: str
    #: The path of its keeper, where that is in no line of the same block.
    keeper: str

    @property
    def goes(self) -> bool:
        return self.item.role == PlanFile.Role.REMOVE

    @property
    def whole_path(self) -> str:
        return to_display(self.item.relative_path)


@dataclass(frozen=True)
class Block:
    """The files of one content."""

    items: list[ShownItem]
    #: Its first files stand on the page before.
    is_continued: bool
    picture: Picture | None

    @property
    def media(self) -> str:
        return media_of(self.items[0].item.relative_path)

    @property
    def key(self) -> str:
        first = self.items[0].item
        return group_key(first.hash_algorithm, bytes(first.content_hash))

    @property
    def short_key(self) -> str:
        return bytes(self.items[0].item.content_hash).hex()[:12]

    @property
    def size(self) -> int:
        return self.items[0].item.size_bytes

    @property
    def anchor(self) -> str:
        return f"c{self.short_key}"


def blocks(items: Sequence[PlanFile], libraries: dict[int, Place], *, continues: PlanFile | None) -> list[Block]:
    """Neighbours of one content together, what stays first; `continues` is the last row of the page before."""
    made: list[Block] = []
    contents = [
        (digest, sorted(some, key=lambda item: (item.role != PlanFile.Role.KEEP, item.pk)))
        for digest, some in groupby(items, key=_content)
    ]
    # Best of the one that stays: it is there also when the plan has been carried out.
    seen = pictures({digest: [(row.file_id, row.relative_path) for row in rows] for digest, rows in contents})
    for digest, rows in contents:
        here = {item.pk for item in rows}
        parts = differences([item.relative_path for item in rows], PATH_LETTERS)
        is_continued = not made and continues is not None and _content(continues) == digest
        shown = [_shown(item, part, libraries, here) for item, part in zip(rows, parts, strict=True)]
        made.append(Block(shown, is_continued, seen.get(digest)))
    return made


def _content(item: PlanFile) -> tuple[str, bytes]:
    return item.hash_algorithm, bytes(item.content_hash)


def _shown(item: PlanFile, parts: tuple[Part, ...], libraries: dict[int, Place], here: set[int]) -> ShownItem:
    keeper = ""
    if item.keeper is not None and item.keeper.pk not in here:
        keeper = f"{library_name(item.keeper.library_id, libraries)}: {to_display(item.keeper.relative_path)}"
    return ShownItem(item, parts, library_name(item.library_id, libraries), keeper)


@dataclass(frozen=True)
class ShownFolder:
    row: PlanFolder
    library: str

    @property
    def path(self) -> str:
        return to_display(self.row.folder)

    @property
    def share(self) -> int:
        """How much of it goes, in thousandths."""
        inside = max(self.row.file_count, self.row.remove_count)
        return self.row.remove_count * 1000 // inside if inside else 0

    @property
    def percent(self) -> int:
        return self.share // 10

    @property
    def is_emptied(self) -> bool:
        return self.row.remove_count > 0 and self.row.remove_count >= self.row.file_count


def as_folders(rows: Sequence[PlanFolder], libraries: dict[int, Place]) -> list[ShownFolder]:
    return [ShownFolder(row, library_name(row.library_id, libraries)) for row in rows]
