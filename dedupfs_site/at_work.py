"""What runs now, as the overview shows it: scans, hashing, plans that are made, acts on files, each with how far it is.

Libraries and acts were read before, so all of it costs one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import Role, User
from jobs.models import Job
from jobs.showing import ShownJob
from libraries.names import to_display
from libraries.showing import ALMOST, PHASE_WORDS, Pace, ShownLibrary, hash_pace
from trash.showing import GRACE, RUNS, ShownAct

#: More than these are only counted.
MOST_RUNS = 12


@dataclass(frozen=True)
class Run:
    """One line."""

    #: Of its row on the page, and the job that a page may wait for the end of.
    key: str
    job_id: str
    icon: str
    title: str
    address: str
    #: Its pill, by a status' name.
    look: str = "running"
    #: Thousandths; None where nobody knows.
    share: int | None = None
    #: What is counted, where something is: how many of how many (0 is "nobody knows").
    done: int = 0
    total: int = 0
    bytes_per_second: int | None = None
    left: timedelta | None = None
    #: What it is doing, or what it waits for.
    note: str = ""
    #: Whoever looks may end it by sending a form there; empty where they may not.
    cancel_address: str = ""

    @property
    def percent(self) -> int | None:
        return None if self.share is None else self.share // 10

    @property
    def is_running(self) -> bool:
        return self.look == "running"


def read_runs(user: User, libraries: Sequence[ShownLibrary], acts: Sequence[ShownAct]) -> list[Run]:
    """What is at work, the oldest first, and the acts that are authorised and about to begin."""
    running = Job.objects.current().select_related("hash_run", "scan_request", "plan").annotate(now=Now())
    running = running.defer("payload", "plan__choices", "plan__group_keys", "plan__rules", "plan__warnings")
    may_cancel = user.may(Role.OPERATOR)
    acting = {each.act.job_id for each in acts}
    jobs = [ShownJob(job, job.now) for job in running[: MOST_RUNS + len(acts)] if job.pk not in acting]  # type: ignore[attr-defined]
    runs = [_run(row, libraries, may_cancel=may_cancel) for row in jobs]
    return [*runs, *(_act(each, user) for each in acts)][:MOST_RUNS]


def _run(row: ShownJob, libraries: Sequence[ShownLibrary], *, may_cancel: bool) -> Run:
    job = row.job
    cancel = reverse("jobs:cancel", args=[job.pk]) if may_cancel else ""
    if job.kind == Job.Kind.SCAN:
        return _scan(row, libraries, cancel)
    if job.kind == Job.Kind.HASH:
        return _hash(row, cancel)
    plan = getattr(job, "plan", None)
    if plan is not None:
        title, address = _("Making plan %(number)d") % {"number": plan.pk}, reverse("plans:detail", args=[plan.pk])
        return _counting(row, "plans", title, address, cancel)
    return _counting(row, job.kind, _kind_words(job.kind), _job_address(job), cancel)


def _scan(row: ShownJob, libraries: Sequence[ShownLibrary], cancel: str) -> Run:
    """By its session where there is one; it is there a moment after the job has begun."""
    request = getattr(row.job, "scan_request", None)
    if request is not None and cancel:
        cancel = reverse("queue:cancel", args=[request.pk])
    found = next((each for each in libraries if request and each.library.pk == request.library_id), None)
    if found is None:
        return _counting(row, "scan", _("Scan"), _job_address(row.job), cancel)
    title = _("Scan of %(name)s") % {"name": to_display(found.library.name)}
    address = reverse("libraries:detail", args=[found.library.pk])
    if found.scan is None:
        return _counting(row, "scan", title, address, cancel)
    return _paced(row, "scan", title, address, cancel, found.scan.pace)


def _hash(row: ShownJob, cancel: str) -> Run:
    run = getattr(row.job, "hash_run", None)
    address = reverse("queue:show")
    if run is None:
        return _counting(row, "hash", _("Hashing"), address, cancel)
    note = str(PHASE_WORDS.get(run.phase, ""))
    return _paced(row, "hash", _("Hashing"), address, cancel, hash_pace(run), note)


def _paced(row: ShownJob, icon: str, title: str, address: str, cancel: str, pace: Pace, note: str = "") -> Run:
    rate = pace.bytes_per_second if pace.is_by_bytes else None
    # More than the last time is no "12 of 10".
    total = pace.files_total if pace.files_shown <= pace.files_total else 0
    return Run(
        row.job.pk,
        row.job.pk,
        icon,
        title,
        address,
        share=pace.share,
        done=pace.files_shown,
        total=total,
        bytes_per_second=rate,
        left=pace.left,
        note=note,
        cancel_address=cancel,
    )


def _counting(row: ShownJob, icon: str, title: str, address: str, cancel: str) -> Run:
    """By what its executor told the job."""
    job, share = row.job, row.share
    shown = None if share is None else min(share, ALMOST)
    return Run(
        job.pk,
        job.pk,
        icon,
        title,
        address,
        share=shown,
        done=job.processed_items,
        total=job.total_items or 0,
        left=row.left,
        cancel_address=cancel,
    )


def _act(shown: ShownAct, user: User) -> Run:
    act = shown.act
    may_stop = shown.can_stop and user.may(Role.ADMIN)
    return Run(
        f"act-{act.pk}",
        act.job_id or "",
        "again" if act.verb == "undo" else "delete",
        _("Plan %(number)d") % {"number": act.plan_id} if act.plan_id else act_words(act.verb),
        reverse("acts:detail", args=[act.pk]),
        look=shown.look,
        share=shown.share if shown.phase != GRACE else None,
        done=shown.handled,
        total=act.file_count,
        bytes_per_second=shown.rate if shown.phase == RUNS else None,
        left=shown.left,
        note=shown.heading,
        cancel_address=reverse("acts:stop", args=[act.pk]) if may_stop else "",
    )


def act_words(verb: str) -> str:
    words = {"undo": _("Undo"), "empty": _("Emptying the trash")}
    return words.get(verb, _("Plan"))


def _kind_words(kind: str) -> str:
    words = {"scan": _("Scan"), "hash": _("Hashing"), "delete": _("Acting"), "thumbnail": _("Thumbnail")}
    return words.get(kind, kind)


def _job_address(job: Job) -> str:
    return reverse("jobs:detail", args=[job.pk])
