"""What somebody marked by hand: how forms send it, and that it leaves a copy of every group.

A form may send one field for each mark, or all of them in one: Django reads a thousand fields and no more, and a group
may have many thousand files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Count
from django.http import QueryDict
from django.utils.translation import gettext as _

from database.portions import portions
from duplicates.facts import Digest, files_of
from duplicates.models import group_key
from duplicates.rule_kinds import Rule
from duplicates.rules import REMOVE, decide
from libraries.errors import Refused
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_display

#: One file's mark is a field of this name and the file's number.
CHOICE = "choice-"
#: Rows that are asked about in one statement.
MOST_ASKED = 400


class LastCopy(Refused):
    """Every copy of a group was marked to go."""


# --- In forms ---------------------------------------------------------------------------------------------
def chosen_files(sent: QueryDict) -> dict[str, str]:
    """`choice-17=keep`, or `choices=17:keep,18:remove`; an empty choice is none."""
    together = (part.partition(":") for part in _parts(sent, "choices"))
    alone = {name.removeprefix(CHOICE): str(sent[name]) for name in sent if name.startswith(CHOICE) and sent[name]}
    return {file: choice for file, _colon, choice in together} | alone


def marked_groups(sent: QueryDict) -> list[str]:
    """`group=…` for each, or all of them in `groups`."""
    return [*_parts(sent, "groups"), *sent.getlist("group")]


def in_one_field(choices: Mapping[str, str]) -> str:
    return ",".join(f"{file}:{choice}" for file, choice in choices.items())


def _parts(sent: QueryDict, name: str) -> list[str]:
    return [part for value in sent.getlist(name) for part in value.split(",") if part]


# --- What they leave --------------------------------------------------------------------------------------
def refuse_last_copies(choices: Mapping[str, str], rules: tuple[Rule, ...]) -> None:
    """Raise `LastCopy` for a choice that leaves no copy of a group that counts. A plan would keep one all the same;
    but whoever marks all of them has made a mistake, and should hear of it."""
    chosen = {int(key): choice for key, choice in choices.items()}
    marked = _by_content([key for key, choice in chosen.items() if choice == REMOVE])
    for some in portions(list(marked), MOST_ASKED):
        there = _counting(some)
        # Only these can have lost all: they are read file by file.
        suspects = [digest for digest in some if marked[digest] >= there[digest]]
        for digest, files in (files_of(suspects) if suspects else {}).items():
            verdicts = decide(files, rules, choices=chosen)
            if len(files) > 1 and any(verdict.code == "last_copy" for verdict in verdicts):
                words = _("Every copy of “%(name)s” is marked to go. Keep one; a backup does not count. (%(group)s)")
                raise LastCopy(words % {"name": to_display(files[0].name), "group": group_key(*digest)})


def _by_content(file_ids: Sequence[int]) -> Counter[Digest]:
    """How many of these files each content has, backups left aside."""
    marked: Counter[Digest] = Counter()
    for some in portions(file_ids, MOST_ASKED):
        marked.update(_digest(row) for row in _files().filter(pk__in=some).values_list(*_DIGEST))
    return marked


def _counting(digests: Sequence[Digest]) -> Counter[Digest]:
    """How many files there are of each, backups left aside."""
    found: Counter[Digest] = Counter()
    for algorithm in {algorithm for algorithm, _hash in digests}:
        hashes = [content_hash for each, content_hash in digests if each == algorithm]
        rows = _files().filter(hash_algorithm=algorithm, content_hash__in=hashes).order_by()
        found.update({_digest(row): row[2] for row in rows.values_list(*_DIGEST).annotate(Count("pk"))})
    return found


_DIGEST = ("hash_algorithm", "content_hash")


def _digest(row: tuple[Any, ...]) -> Digest:
    return row[0], bytes(row[1])


def _files() -> Any:
    present = LibraryFile.objects.filter(is_missing=False, needs_hash=False, content_hash__isnull=False)
    return present.exclude(library__role=LibraryRoot.Role.BACKUP)
