"""Acts as pages show them: in which phase one is, how far, how long still, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy, ngettext

from duplicates.models import Plan
from frame.templatetags.human import count_words
from jobs.models import Job
from jobs.showing import ShownJob
from libraries.errors import Refused
from trash import choosing_items
from trash.models import Act
from trash.reason_words import reason_words as reason_words
from trash.space import gained

#: Before so much is done, "how long still" would be a guess.
ENOUGH_SECONDS = 1.0

GRACE, WAITS, RUNS, PAUSING, PAUSED, LOST, STOPPING, ENDED = (
    "grace", "waits", "runs", "pausing", "paused", "lost", "stopping", "ended",
)  # fmt: skip
#: What a phase looks like (`frame.templatetags.frame.LOOKS`).
_LOOKS = {GRACE: "authorised", WAITS: "pending", RUNS: "running", PAUSING: "running", LOST: "retryable"}
_HEADINGS = {
    "act": {
        GRACE: gettext_lazy("It begins in a moment"),
        WAITS: gettext_lazy("It begins as soon as a consumer is free"),
        RUNS: gettext_lazy("The plan is being carried out"),
        PAUSING: gettext_lazy("Pausing: the files in hand are finished first"),
        PAUSED: gettext_lazy("Paused"),
        LOST: gettext_lazy("Interrupted: it goes on by itself"),
        STOPPING: gettext_lazy("Stopped: what was in hand is being settled"),
    },
    "undo": {
        WAITS: gettext_lazy("Undo waits for a consumer"),
        RUNS: gettext_lazy("Files are being put back"),
    },
    "empty": {
        GRACE: gettext_lazy("Emptying begins in a moment"),
        WAITS: gettext_lazy("Emptying begins as soon as a consumer is free"),
        RUNS: gettext_lazy("The trash is being emptied"),
    },
}
_ENDINGS = {
    ("act", "completed"): gettext_lazy("The plan was carried out"),
    ("act", "cancelled"): gettext_lazy("It was stopped"),
    ("act", "failed"): gettext_lazy("It could not be carried out to its end"),
    ("undo", "completed"): gettext_lazy("Undone"),
    ("undo", "cancelled"): gettext_lazy("Undo was stopped"),
    ("undo", "failed"): gettext_lazy("Undo could not be carried out to its end"),
    ("empty", "completed"): gettext_lazy("Emptied"),
    ("empty", "cancelled"): gettext_lazy("Emptying was stopped"),
    ("empty", "failed"): gettext_lazy("Emptying could not be carried out to its end"),
}
VOID_WORDS = gettext_lazy("Its approval no longer counts")


@dataclass(frozen=True)
class ShownAct:
    """An act, its job, and the time at which both were read."""

    act: Act
    now: datetime

    @property
    def job(self) -> ShownJob | None:
        return ShownJob(self.act.job, self.now) if self.act.job is not None else None

    @property
    def phase(self) -> str:
        act, job = self.act, self.act.job
        if not act.is_living:
            return ENDED
        if job is None or job.status not in Job.UNFINISHED:
            return STOPPING
        if act.is_paused:
            return PAUSING if job.status == Job.Status.RUNNING else PAUSED
        if job.status == Job.Status.RUNNING:
            return RUNS
        if job.status == Job.Status.RETRYABLE:
            return LOST
        return GRACE if act.starts_at > self.now else WAITS

    @property
    def is_live(self) -> bool:
        return self.act.is_living

    @property
    def look(self) -> str:
        """Its pill."""
        return self.act.status if self.phase == ENDED else _LOOKS.get(self.phase, self.phase)

    @property
    def heading(self) -> str:
        if self.act.status == Act.Status.VOID:
            return str(VOID_WORDS)
        if self.phase == ENDED:
            return str(_ENDINGS[self.act.verb, self.act.status])
        return str(_HEADINGS[self.act.verb].get(self.phase, _HEADINGS["act"][self.phase]))

    @property
    def token(self) -> str:
        """Changes when more of the page changes than the figures."""
        job = self.act.job
        return f"{self.act.pk}-{self.phase}-{job.status if job else 'none'}"

    # --- How far ------------------------------------------------------------------------------------------
    @property
    def handled(self) -> int:
        return self.act.done_count + self.act.skipped_count

    @property
    def bytes_met(self) -> int:
        """Of the files that are done with, and of the one that is worked on."""
        in_hand = self.act.bytes_in_hand if self.is_live else 0
        return min(self.act.bytes_done + in_hand, max(self.act.total_bytes, self.act.bytes_done))

    @property
    def share(self) -> int:
        """In thousandths: of the bytes, or of the files where all of them are empty."""
        act = self.act
        done, whole = (self.bytes_met, act.total_bytes) if act.total_bytes else (self.handled, act.file_count)
        return min(max(done * 1000 // whole, 0), 1000) if whole else 0

    @property
    def percent(self) -> int:
        return self.share // 10

    @property
    def rate(self) -> int | None:
        """Bytes a second, over all the time it was at work."""
        seconds = self.act.busy_seconds + (self.act.seconds_in_hand if self.is_live else 0)
        if seconds < ENOUGH_SECONDS or not self.bytes_met:
            return None
        return int(self.bytes_met / seconds)

    @property
    def left(self) -> timedelta | None:
        if self.phase != RUNS or not self.rate:
            return None
        return timedelta(seconds=max(self.act.total_bytes - self.bytes_met, 0) / self.rate)

    @property
    def starts_in(self) -> int:
        """Whole seconds until it begins."""
        return max(int((self.act.starts_at - self.now).total_seconds() + 0.999), 0)

    # --- What may be decided ------------------------------------------------------------------------------
    @property
    def can_stop(self) -> bool:
        return self.phase not in (ENDED, STOPPING)

    @property
    def can_pause(self) -> bool:
        return self.can_stop and not self.act.is_paused and self.phase != GRACE

    @property
    def can_resume(self) -> bool:
        return self.can_stop and self.act.is_paused

    @property
    def can_undo(self) -> bool:
        """Something of it lies in the trash, and nobody is at it."""
        return not self.is_live and self.act.verb == Act.Verb.ACT and self.act.trashed_count > 0

    # --- What it is, what came of it ----------------------------------------------------------------------
    @property
    def what(self) -> str:
        """What was authorised, in words."""
        act, count = self.act, self.act.file_count
        words = {
            Act.Verb.UNDO: ngettext("Put %(count)s file back", "Put %(count)s files back", count),
            Act.Verb.EMPTY: ngettext("Remove %(count)s file for good", "Remove %(count)s files for good", count),
        }.get(Act.Verb(act.verb)) or action_words(act.plan, count)
        return words % {"count": count_words(count)}

    @property
    def which(self) -> str:
        """Of which files, where it is no plan's."""
        try:
            return choosing_items.described(self.act.selection) if self.act.selection else ""
        except Refused:  # as another version wrote it
            return ""

    @property
    def done_words(self) -> str:
        act = self.act
        count = act.done_count
        words = {
            "undo": ngettext("%(count)s file is back", "%(count)s files are back", count),
            "empty": ngettext("%(count)s file was removed for good", "%(count)s files were removed for good", count),
        }.get(act.verb) or {
            "trash": ngettext("%(count)s file moved to trash", "%(count)s files moved to trash", count),
            "hardlink": ngettext("%(count)s file became a hard link", "%(count)s files became hard links", count),
            "delete": ngettext("%(count)s file was deleted", "%(count)s files were deleted", count),
        }[act.plan.action if act.plan else "trash"]
        return words % {"count": count_words(count)}

    @property
    def untouched(self) -> int:
        """Files that it never came to."""
        return max(self.act.file_count - self.handled, 0)

    @property
    def freed_bytes(self) -> int | None:
        """What came back, as the filesystems themselves told it; None where nothing was to."""
        act = self.act
        removes = act.verb == Act.Verb.EMPTY or (
            act.verb == Act.Verb.ACT and act.plan is not None and act.plan.action == "delete"
        )
        return gained(act.space) if removes else None

    @property
    def lasted(self) -> timedelta:
        return timedelta(seconds=self.act.busy_seconds)


def action_words(plan: Plan | None, count: int) -> str:
    """What a button says; with `%(count)s` in it."""
    action = plan.action if plan else "trash"
    return {
        "trash": ngettext("Move %(count)s file to trash", "Move %(count)s files to trash", count),
        "hardlink": ngettext("Replace %(count)s file by a hard link", "Replace %(count)s files by hard links", count),
        "delete": ngettext("Delete %(count)s file for good", "Delete %(count)s files for good", count),
    }[action]


def shown(acts: QuerySet[Act]) -> QuerySet[Act]:
    """Read acts with their jobs and plans, and the time at which they are read."""
    return acts.select_related("job", "plan").defer("job__payload").annotate(now=Now())


def as_shown(acts: Sequence[Act]) -> list[ShownAct]:
    return [ShownAct(act, act.now) for act in acts]  # type: ignore[attr-defined]
