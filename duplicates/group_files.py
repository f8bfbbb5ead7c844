"""The files of one group as its page shows them side by side, a page of them at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import Max, Min, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from duplicates.facts import FileFacts, present_files, read_places
from duplicates.models import DuplicateGroup
from duplicates.path_difference import Part, differences
from duplicates.rules import decide
from libraries.models import LibraryFile
from libraries.names import to_display
from thumbnails.showing import LARGE, Picture, pictures

#: Files on one page of a group: enough for every group but the odd one.
PAGE_FILES = 24
PATH_LETTERS = 240
#: The grounds of `rules.decide` that hold whatever anybody chooses.
STAYS = frozenset({"protected_library", "protected_folder", "backup", "young"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ShownFile:
    """One copy."""

    facts: FileFacts
    parts: tuple[Part, ...]
    now: datetime
    #: How many of the names shown are this very file, itself included, and the letter they share where it is several.
    names_here: int
    letter: str
    #: Why it stays whatever anybody chooses; empty where it may go.
    refusal: str

    @property
    def counts(self) -> bool:
        """Whether others may go because it stays: a backup is no reason to remove the original."""
        return not self.facts.is_backup

    @property
    def whole_path(self) -> str:
        return to_display(self.facts.path)

    @property
    def modified_at(self) -> datetime | None:
        return moment(self.facts.mtime_ns)

    @property
    def changed_at(self) -> datetime | None:
        return moment(self.facts.ctime_ns)

    @property
    def inode(self) -> str:
        """As `ls -i` writes it: the column holds 64 bits with a sign."""
        return "" if self.facts.inode is None else str(self.facts.inode % 2**64)

    @property
    def inode_key(self) -> str:
        return "{}:{}".format(*self.facts.inode_key)

    @property
    def filesystem(self) -> str:
        return self.facts.place.filesystem_of(self.facts.path)


@dataclass(frozen=True)
class FilePage:
    files: list[ShownFile]
    next_after: int | None
    is_first: bool


def moment(nanoseconds: int | None) -> datetime | None:
    """A file's time; None for one that no calendar has, as broken disks give them."""
    if nanoseconds is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None


def page_of(group: DuplicateGroup, after: int = 0, size: int = PAGE_FILES) -> FilePage:
    """The group's files with a larger id than `after`, with what is different between those shown."""
    rows = list(_files(group).filter(pk__gt=after).annotate(now=Now())[: size + 1])
    shown, places = rows[:size], read_places()
    found = [(FileFacts.of(row, places), row.now) for row in shown if row.library_id in places]
    return FilePage(_as_shown(found), shown[-1].pk if len(rows) > size else None, after == 0)


def proved_between(group: DuplicateGroup) -> tuple[datetime | None, datetime | None]:
    """When the first and the last of its files were read whole."""
    times = _files(group).aggregate(first=Min("hashed_at"), last=Max("hashed_at"))
    return times["first"], times["last"]


def _files(group: DuplicateGroup) -> QuerySet[LibraryFile]:
    return present_files((group.hash_algorithm, bytes(group.content_hash)))


def _as_shown(found: list[tuple[FileFacts, datetime]]) -> list[ShownFile]:
    parts = differences([facts.path for facts, _now in found], PATH_LETTERS)
    names = Counter(facts.inode_key for facts, _now in found)
    several = [key for key, count in names.items() if count > 1]
    letters = {key: chr(ord("A") + number) for number, key in enumerate(several)}
    refusals = _refusals(found)
    return [
        ShownFile(
            facts,
            part,
            now,
            names[facts.inode_key],
            letters.get(facts.inode_key, ""),
            refusals.get(facts.id, ""),
        )
        for (facts, now), part in zip(found, parts, strict=True)
    ]


def _refusals(found: list[tuple[FileFacts, datetime]]) -> dict[int, str]:
    """Why files stay, in the words of the rules: what no choice by hand overrules."""
    if not found:
        return {}
    old_enough = found[0][1] - timedelta(hours=settings.YOUNG_HOURS)
    young_after_ns = (old_enough - _EPOCH) // timedelta(microseconds=1) * 1000
    verdicts = decide([facts for facts, _now in found], (), young_after_ns=young_after_ns)
    refusals = {
        facts.id: _("Its library can't be written to.") for facts, _now in found if facts.place.is_writable is False
    }
    return refusals | {verdict.file_id: verdict.reason for verdict in verdicts if verdict.code in STAYS}


def name_of(group: DuplicateGroup) -> str:
    """The name of the file that stands for the group, as it is stored."""
    paths = LibraryFile.objects.filter(pk=group.sample_file_id).values_list("relative_path", flat=True)
    return (paths.first() or "").rpartition("/")[2]


def picture_of(group: DuplicateGroup, name: str, page: FilePage) -> Picture | None:
    """The one picture that all of them are: of the file that stands for the group, or of any that is shown."""
    files = [(group.sample_file_id, name), *((file.facts.id, file.facts.path) for file in page.files)]
    return pictures({group.pk: files}, LARGE).get(group.pk)
