"""Making a plan: group by group, in bounded memory, each batch in one fenced transaction.

It goes from the largest files down: a content's size never changes, so no group comes twice or is passed over while
others change. A run that was killed begins anew, from a plan without rows. No file is touched or read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings
from django.utils.translation import gettext as _

from database.crash_points import reach
from database.routing import EXECUTOR
from duplicates import folder_asking, listing, plan_folders, plan_storing, plan_warnings, summary
from duplicates.facts import Digest, FileFacts, files_of, read_places
from duplicates.models import Plan
from duplicates.plan_storing import FolderKey, Loss, PlannedFile, PlannedGroup, Totals
from duplicates.rules import decide, parse
from jobs.errors import LeaseLost, Stopping
from jobs.models import Job
from jobs.working import Work
from libraries.errors import Refused
from libraries.models import LibraryRoot
from logbook.models import write_event

#: Files of one transaction, which holds SQLite's write lock for less than a tenth of a second.
BATCH_FILES = 1_000
MOST_FILTER_FIELDS = 50
FILTER_CHARACTERS = 16_384
#: Files that stay although others of their group may go, by the codes of `duplicates.rules`.
LEFT_OUT = frozenset({
    "protected_library", "protected_folder", "backup", "young", "never_touch", "remove_only_under", "undecided",
})  # fmt: skip
#: Counted for files that came by with another content a second time.
CHANGED = "changed"


def parse_filter(text: str) -> listing.Filter:
    """A query string, as it stands in the address of the groups' page."""
    if len(text) > FILTER_CHARACTERS:
        raise Refused(_("The filter is too long."))
    try:
        found = listing.Filter.parse(dict(parse_qsl(text.lstrip("?"), max_num_fields=MOST_FILTER_FIELDS)))
    except listing.BadFilter as error:
        raise Refused(str(error)) from None
    except ValueError:
        raise Refused(_("The filter has more parts than any filter of groups has.")) from None
    wanted = [key for key in {found.library, found.copy_in} if key is not None]
    if LibraryRoot.objects.filter(pk__in=wanted).count() != len(wanted):
        raise Refused(_("The filter names a library that is not there any more."))
    return found


class Making:
    """One run over the groups of one plan."""

    def __init__(self, work: Work[Job], plan: Plan) -> None:
        self.work = work
        self.plan = plan
        self.rules = parse(plan.rules)
        self.filter = parse_filter(plan.filter)
        self.choices = {int(key): choice for key, choice in plan.choices.items()}
        self.totals = Totals()
        self.untouched = 0
        self.left_out: dict[str, int] = {}
        self.losses: dict[FolderKey, Loss] = {}

    def run(self) -> None:
        self._clear()
        self._count_groups()
        done, total = 0, self._how_many()
        self.work.advance(done, total, doing=f"plan {self.plan.pk}")
        for digests in self._batches():
            self.work.check()
            self._store(digests)
            done += len(digests)
            self.work.advance(done, max(done, total))
            self.work.tell()
            reach("plan_stored")
        self._finish()

    def _clear(self) -> None:
        """What a run that was killed has left."""
        is_clear = False
        while not is_clear:
            self.work.check()
            with self.work.fenced("plan"):
                is_clear = plan_storing.clear_some(self.plan, EXECUTOR) < plan_storing.MOST_CLEARED
            self.work.advance(doing="taking away what an earlier try has written")
            reach("plan_cleared")

    def _count_groups(self) -> None:
        while not summary.bring_up_to_date(EXECUTOR, seconds=2.0):
            self.work.advance(doing="counting groups")
            self.work.check()

    def _how_many(self) -> int:
        return len(self.plan.group_keys) or listing.totals(self.filter).groups

    # --- Group by group -----------------------------------------------------------------------------------
    def _batches(self) -> Iterator[list[Digest]]:
        batch: list[Digest] = []
        files = 0
        for digest, count in self._groups():
            batch.append(digest)
            files += count
            if files >= BATCH_FILES:
                yield batch
                batch, files = [], 0
        if batch:
            yield batch

    def _groups(self) -> Iterator[tuple[Digest, int]]:
        """Contents and about how many files each has. Whoever named groups means these, whatever the filter says."""
        if self.plan.group_keys:
            for key in self.plan.group_keys:
                yield listing.parse_group_key(key), 10
            return
        for groups, _cursor in listing.every(self.filter, "size", using=EXECUTOR):
            for group in groups:
                yield (group.hash_algorithm, bytes(group.content_hash)), group.file_count
            # Looking through many groups of which few match is progress too.
            self.work.advance()
            self.work.check()

    def _store(self, digests: list[Digest]) -> None:
        found = files_of(digests, using=EXECUTOR)
        known = plan_storing.planned_already(
            self.plan, [file.id for files in found.values() for file in files], EXECUTOR
        )
        groups: list[PlannedGroup] = []
        for digest in digests:
            files = found.get(digest, [])
            if known and any(file.id in known for file in files):
                self._leave_out(CHANGED, len(files))
            elif len(files) > 1 and (planned := self._decide(files)):
                groups.append((digest, planned))
                self._add_up(planned)
        with self.work.fenced("plan"):
            plan_storing.insert(self.plan, groups, EXECUTOR)
            self._write_totals()

    def _decide(self, files: list[FileFacts]) -> list[PlannedFile]:
        """The files of one group with what becomes of them; nothing where all of them stay."""
        verdicts = decide(files, self.rules, choices=self.choices, young_after_ns=young_after_ns(self.plan))
        for verdict in verdicts:
            if verdict.role == "keep" and verdict.code in LEFT_OUT:
                self._leave_out(verdict.code)
        if all(verdict.role == "keep" for verdict in verdicts):
            self.untouched += 1
            return []
        return [
            PlannedFile(file, verdict.keeper_id if verdict.role == "remove" else None, verdict.reason)
            for file, verdict in zip(files, verdicts, strict=True)
        ]

    def _leave_out(self, code: str, count: int = 1) -> None:
        self.left_out[code] = self.left_out.get(code, 0) + count

    def _add_up(self, files: list[PlannedFile]) -> None:
        self.totals = self.totals.plus(plan_storing.totals_of_group(files))
        for file in files:
            if file.goes:
                loss = self.losses.setdefault((file.facts.place.id, file.facts.folder), Loss())
                loss.files += 1
                loss.bytes += file.facts.size

    def _write_totals(self, **columns: Any) -> None:
        columns |= {"untouched_count": self.untouched, "left_out": self.left_out}
        if not plan_storing.set_totals(self.plan.pk, self.totals, EXECUTOR, **columns):
            raise LeaseLost(f"plan {self.plan.pk} is gone")

    # --- The end ------------------------------------------------------------------------------------------
    def _finish(self) -> None:
        inside = plan_folders.look_into(self.losses, EXECUTOR, self._tick)
        asked = folder_asking.ask_folders(self.losses, read_places(EXECUTOR), self._has_to_stop)
        self._tick()
        self.plan.left_out = self.left_out
        emptied = [key for key, loss in self.losses.items() if loss.files >= inside[key].files]
        warnings = plan_warnings.work_out(
            self.plan,
            EXECUTOR,
            emptied=(len(emptied), sorted(emptied)[: plan_warnings.EXAMPLES]),
            folders=plan_warnings.FolderFigures.of(self.losses, asked),
            beside={key for key, found in inside.items() if found.has_side_cars},
            tick=self._tick,
        )
        reach("plan_looked")
        with self.work.fenced("plan"):
            rows = ((key, loss, inside[key].files) for key, loss in sorted(self.losses.items()))
            plan_storing.add_folders(self.plan, rows, EXECUTOR, asked.is_writable)
            self._write_totals(warnings=warnings, status=Plan.Status.READY)
            write_event(
                "plans",
                str(self.plan.pk),
                "planned",
                actor=self.work.lease.worker_id,
                using=EXECUTOR,
                totals=self.totals.columns(),
            )
        reach("plan_ready")

    def _tick(self) -> None:
        self.work.advance(doing="looking into folders")
        self.work.check()

    def _has_to_stop(self) -> bool:
        try:
            self._tick()
        except (LeaseLost, Stopping):
            return True
        return False


def young_after_ns(plan: Plan) -> int | None:
    """Files changed after this moment are not planned: somebody may still write them. It is the plan's own moment, so
    that a run which begins anew decides the same."""
    if not settings.YOUNG_HOURS:
        return None
    return (int(plan.created_at.timestamp()) - settings.YOUNG_HOURS * 3600) * 10**9
