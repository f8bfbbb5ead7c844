"""What runs now, in the frame of every page, and what has ended since: the pill in the header and the toasts.

A browser remembers the jobs that its person started or watches (static/js/live.js) and names them in a header whenever
a live part of a page asks; the answer tells which of them have ended. So a page asks once for all that it shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from jobs.models import Job
from jobs.showing import share_of
from libraries.names import to_display
from logbook.models import LogbookEvent

#: The jobs that a browser waits for, with blanks between.
HEADER = "X-Watched"
#: More than these are neither looked at nor waited for.
MOST = 20
_JOB_ID = re.compile(r"[0-9A-Za-z-]{1,36}")
#: A name in a toast is a reminder, not the place to read it in full.
NAME_LENGTH = 60


@dataclass(frozen=True)
class Toast:
    """A job that has ended, in words for whoever waited for it."""

    job: Job
    words: str
    address: str

    @property
    def state(self) -> str:
        return "ok" if self.job.status == Job.Status.COMPLETED else "danger"

    @property
    def icon(self) -> str:
        return "done" if self.job.status == Job.Status.COMPLETED else "failed"


class RunningNow:
    """It asks the database only on pages that show it."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    # --- The pill ---
    @property
    def address(self) -> str:
        return f"{reverse('jobs:list')}?status={Job.Status.RUNNING}"

    @cached_property
    def _active(self) -> list[Job]:
        """What runs, then what waits, the newest first; each with whether this person started it."""
        started = LogbookEvent.objects.filter(
            item__item_type="jobs", item__subject_id=OuterRef("pk"), event_type="requested", actor=self._name
        )
        active = Job.objects.filter(status__in=Job.ACTIVE).annotate(is_own=Exists(started))
        return list(active.order_by("-status", "-created_at", "-id").defer("payload")[:MOST])

    @property
    def _name(self) -> str:
        user = getattr(self._request, "user", None)
        return user.username if isinstance(user, User) else ""

    @cached_property
    def count(self) -> int:
        running = sum(job.status == Job.Status.RUNNING for job in self._active)
        return running if running < MOST else Job.objects.current().count()

    @property
    def words(self) -> str:
        if not self.count:
            return _("Nothing runs")
        if self.count > 1:
            return ngettext("%(count)s job runs", "%(count)s jobs run", self.count) % {"count": self.count}
        job = self._active[0]
        share = share_of(job)
        return job.called if share is None else f"{job.called} {share // 10} %"

    # --- What is waited for ---
    @property
    def now_address(self) -> str:
        return reverse("now")

    @property
    def is_active(self) -> bool:
        """While something runs or is about to, a page asks now and then; the asking ends when nothing does."""
        return bool(self._active)

    @property
    def watched(self) -> str:
        """The active jobs that this person started; the browser waits for their end, on whichever page."""
        return " ".join(job.pk for job in self._active if job.is_own)  # type: ignore[attr-defined]

    @cached_property
    def _asked(self) -> list[str]:
        named = self._request.headers.get(HEADER, "").split()[:MOST]
        return [key for key in named if _JOB_ID.fullmatch(key)]

    @cached_property
    def _found(self) -> list[Job]:
        found = Job.objects.filter(pk__in=self._asked).select_related("scan_request__library", "plan", "act")
        return list(found.only(*SHOWN).order_by("finished_at", "id")) if self._asked else []

    @property
    def ended(self) -> str:
        """Those of the jobs that the browser named which it need not name again: they ended, or are gone."""
        unfinished = {job.pk for job in self._found if job.status in Job.UNFINISHED}
        return " ".join(key for key in self._asked if key not in unfinished)

    @property
    def toasts(self) -> list[Toast]:
        """What was cancelled is left out: whoever did it knows, and nothing came of it."""
        quiet = (*Job.UNFINISHED, Job.Status.CANCELLED)
        return [_toast(job) for job in self._found if job.status not in quiet]


#: What a toast needs; a plan's choices and a job's payload can be long.
SHOWN = ("kind", "status", "dry_run", "finished_at", "scan_request__library__name", "plan__id", "act__id")


def _toast(job: Job) -> Toast:
    is_done = job.status == Job.Status.COMPLETED
    plan, act, request = (getattr(job, name, None) for name in ("plan", "act", "scan_request"))
    if plan is not None:
        words = _("Plan %(number)s is made.") if is_done else _("Plan %(number)s could not be made.")
        return Toast(job, words % {"number": plan.pk}, reverse("plans:detail", args=[plan.pk]))
    if act is not None:
        words = _("Act %(number)s is done.") if is_done else _("Act %(number)s failed.")
        return Toast(job, words % {"number": act.pk}, reverse("acts:detail", args=[act.pk]))
    if request is not None:
        name = to_display(request.library.name)[:NAME_LENGTH]
        words = _("The scan of %(name)s is done.") if is_done else _("The scan of %(name)s failed.")
        return Toast(job, words % {"name": name}, reverse("libraries:detail", args=[request.library_id]))
    words = _("Done: %(kind)s.") if is_done else _("Failed: %(kind)s.")
    return Toast(job, words % {"kind": job.called}, reverse("jobs:detail", args=[job.pk]))
