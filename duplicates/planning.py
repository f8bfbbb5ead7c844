"""Plans: what would be done to which file, and why. Making one is a dry run; no file is touched or read.

A person asks (`make_plan`); a `delete` job with `dry_run` carries it out (`carry_out`, by `duplicates.plan_making`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from database.clock import SecondsFromNow
from database.routing import EXECUTOR
from duplicates import listing
from duplicates.choosing import refuse_last_copies
from duplicates.models import Action, Plan, group_key
from duplicates.plan_making import Making, parse_filter
from duplicates.rules import RulesError, parse
from jobs.deciding import QUEUE, enqueue
from jobs.executing import Outcome, carry_out_here, worker_name
from jobs.lease import Lease
from jobs.models import Job
from jobs.working import Work
from libraries.errors import Refused
from logbook.models import write_event

MOST_KEYS = 10_000
MOST_CHOICES = 100_000
LARGEST = 2**63 - 1

NOT_AUTHORISED = "NOT_AUTHORISED"
NO_PLAN = "NO_PLAN"
PLAN_REFUSED = "PLAN_REFUSED"


# --- Asking -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Wish:
    """What was asked for, checked and in its one written form: the columns of a plan."""

    action: str
    rules: list[dict[str, Any]]
    rule_set_name: str
    filter: str
    group_keys: list[str]
    choices: dict[str, str]
    removes_empty_folders: bool = False
    links_despite_metadata: bool = False

    def columns(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "rules": self.rules,
            "rule_set_name": self.rule_set_name,
            "filter": self.filter,
            "group_keys": self.group_keys,
            "choices": self.choices,
            "removes_empty_folders": self.removes_empty_folders,
            "links_despite_metadata": self.links_despite_metadata,
        }


def make_plan(
    *,
    actor: str,
    action: str,
    rules: Sequence[dict[str, Any]] = (),
    rule_set_name: str = "",
    filter: str = "",
    group_keys: Sequence[str] = (),
    choices: Mapping[str, str] | None = None,
    removes_empty_folders: bool = False,
    links_despite_metadata: bool = False,
) -> Plan:
    """Save a plan and ask for its dry run. Raises `Refused` with what is wrong."""
    wish = checked(
        action,
        rules,
        rule_set_name,
        filter,
        group_keys,
        choices,
        removes_empty_folders=removes_empty_folders,
        links_despite_metadata=links_despite_metadata,
    )
    refuse_last_copies(wish.choices, parse(wish.rules))
    with transaction.atomic():
        plan = _save(wish, actor)
        job = enqueue(Job.Kind.DELETE, actor=actor, dry_run=True, payload={"plan_id": plan.pk})
        _carried_by(plan, job)
    plan.refresh_from_db()
    return plan


def plan_again(plan: Plan, *, actor: str) -> Plan:
    """A new plan of the same wish: the old one keeps its history."""
    return make_plan(
        actor=actor,
        action=plan.action,
        rules=plan.rules,
        rule_set_name=plan.rule_set_name,
        filter=plan.filter,
        group_keys=plan.group_keys,
        choices=plan.choices,
        removes_empty_folders=plan.removes_empty_folders,
        links_despite_metadata=plan.links_despite_metadata,
    )


def plan_now(wish: Wish, *, actor: str) -> Plan:
    """Make a plan in this process, as an executor with a lease of its own; no consumer can take its job."""
    worker_id = f"{worker_name()}:{uuid.uuid4().hex}"
    with transaction.atomic():
        plan = _save(wish, actor)
        job = Job.objects.create(
            kind=Job.Kind.DELETE,
            dry_run=True,
            status=Job.Status.RUNNING,
            payload={"plan_id": plan.pk},
            worker_id=worker_id,
            worker_heartbeat_at=Now(),
            lease_expires_at=SecondsFromNow(settings.LEASE_SECONDS),
            started_at=Now(),
        )
        write_event("jobs", job.pk, "requested", actor=actor)
        _carried_by(plan, job)
    carry_out_here(QUEUE, Lease(Job, job, worker_id))
    return Plan.objects.select_related("job").get(pk=plan.pk)


def _save(wish: Wish, actor: str) -> Plan:
    plan = Plan.objects.create(**wish.columns(), created_by=actor[:150])
    write_event("plans", str(plan.pk), "requested", actor=actor, action=wish.action, rules=wish.rule_set_name)
    return plan


def _carried_by(plan: Plan, job: Job) -> None:
    Plan.objects.filter(pk=plan.pk).update(job=job)


def checked(
    action: str,
    rules: Sequence[dict[str, Any]] = (),
    rule_set_name: str = "",
    filter: str = "",
    group_keys: Sequence[str] = (),
    choices: Mapping[str, str] | None = None,
    *,
    removes_empty_folders: bool = False,
    links_despite_metadata: bool = False,
) -> Wish:
    if action not in Action.values:
        known = ", ".join(Action.values)
        raise Refused(_("“%(action)s” is no action; there is %(known)s.") % {"action": action[:80], "known": known})
    choices = choices or {}
    if not rules and not choices:
        raise Refused(_("Choose keep rules, or mark by hand what is to go: without either, every file stays."))
    try:
        parse(list(rules))
    except RulesError as error:
        raise Refused(str(error)) from None
    if links_despite_metadata and action != Action.HARDLINK:
        raise Refused(_("Owner, mode and attributes matter only where files are replaced by hard links."))
    return Wish(
        action,
        list(rules),
        rule_set_name[:100],
        parse_filter(filter).query(),
        _keys(group_keys),
        _choices(choices),
        removes_empty_folders,
        links_despite_metadata,
    )


def _keys(given: Sequence[str]) -> list[str]:
    if len(given) > MOST_KEYS:
        raise Refused(_("Mark at most %(most)s groups, or use a filter.") % {"most": f"{MOST_KEYS:,}"})
    try:
        return list(dict.fromkeys(group_key(*listing.parse_group_key(key)) for key in given))
    except listing.BadGroupKey as error:
        raise Refused(str(error)) from None


def _choices(given: Mapping[str, str]) -> dict[str, str]:
    if len(given) > MOST_CHOICES:
        raise Refused(_("Mark at most %(most)s files by hand.") % {"most": f"{MOST_CHOICES:,}"})
    for key, choice in given.items():
        is_id = key.isascii() and key.isdecimal() and len(key) < 20 and int(key) <= LARGEST
        if not is_id or choice not in ("keep", "remove"):
            raise Refused(_("By hand a file, known by its number, is kept or removed; nothing else."))
    return {str(int(key)): choice for key, choice in given.items()}


# --- Carrying out -----------------------------------------------------------------------------------------
def carry_out(work: Work[Job]) -> Outcome | None:
    """The handler of `delete` jobs: only dry runs are carried out, each for the plan that asked for it."""
    if not work.row.dry_run:
        return Outcome("failed", NOT_AUTHORISED, "This version makes plans and carries none out; no file was touched.")
    plan = _plan_of(work.row)
    if plan is None:
        return Outcome(
            "failed",
            NO_PLAN,
            "A dry run is made for a plan. Ask for one on the page of the plans, by POST /api/v1/plans, or with"
            " manage.py plan. A plan that could not be made is made anew by “Plan again” on its page.",
        )
    if plan.status == Plan.Status.READY:
        return None  # it died after its last batch, before anybody noted that it had ended
    try:
        Making(work, plan).run()
    except (RulesError, Refused, listing.BadFilter) as error:
        return Outcome("failed", PLAN_REFUSED, str(error))
    return None


def _plan_of(job: Job) -> Plan | None:
    """The plan that waits for this very job."""
    key = job.payload.get("plan_id") if isinstance(job.payload, dict) else None
    if isinstance(key, bool) or not isinstance(key, int):
        return None
    wanted = Plan.objects.using(EXECUTOR).filter(pk=key, job_id=job.pk)
    return wanted.exclude(status=Plan.Status.DISCARDED).first()
