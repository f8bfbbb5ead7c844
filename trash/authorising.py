"""What people decide about acting on files: authorise a plan, stop, pause, go on, ask for undo, authorise emptying.

Each verb is policy: one transaction with a compare-and-swap, the job that carries it out, and a logbook event that
says who, when and how many. Who may ask is the door's business (pages, API, commands); what may be asked is decided
here, for all of them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from database.clock import SecondsFromNow
from database.durable import durable_transaction
from duplicates.models import Plan, PlanFile
from jobs import deciding
from jobs.doorbell import ring
from jobs.errors import Refused as JobRefused
from jobs.models import Job
from libraries.errors import NotThere, Refused
from logbook.models import write_event
from trash import choosing_items, switching
from trash.clashing import clash_words
from trash.models import Act
from trash.objects import CLASH

#: Until somebody goes on: no clock gets there.
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
ACTOR_CHARACTERS = 150


# --- A plan -----------------------------------------------------------------------------------------------
def authorise(plan_id: int, typed: int | str, *, actor: str, seen: str = "") -> Act:
    """Let a plan be carried out, exactly as it is now. `typed` is the number of its files, as the person read it.

    `seen` is the plan's `updated_at` as the page showed it (`version_of`): who read an older plan reads the new one
    first. Raises `Refused` or `NotThere`, with words.
    """
    try:
        with transaction.atomic():
            plan = _ready(plan_id, typed, seen)
            act = _make(Act.Verb.ACT, plan, {}, plan.remove_count, plan.remove_bytes, actor, _grace())
            _tell(act, "authorised", actor, plan=plan.pk, files=plan.remove_count, action=plan.action)
            about: dict[str, Any] = {"files": plan.remove_count, "size_bytes": plan.remove_bytes, "act": act.pk}
            write_event("plans", str(plan.pk), "authorised", actor=actor, **about)
    except IntegrityError as error:
        # The database refuses what would let two acts meet in one file, whoever was first.
        if CLASH not in str(error):
            raise
        raise Refused(clash_words(plan_id)) from None
    return act


def _ready(plan_id: int, typed: int | str, seen: str) -> Plan:
    """The plan, authorised by this transaction; nobody can change it from here on."""
    plan = Plan.objects.select_for_update().filter(pk=plan_id).first()
    if plan is None:
        raise NotThere(_("There is no such plan."))
    if plan.status != Plan.Status.READY:
        raise Refused(_not_ready(plan))
    if refusal := switching.why_not_act(plan.action):
        raise Refused(refusal)
    if not plan.remove_count:
        raise Refused(_("Nothing goes by this plan: there is nothing to authorise."))
    if seen and seen != version_of(plan):
        raise Refused(_("The plan was changed since you opened it. Read it again, then authorise what it says now."))
    if _number(typed) != plan.remove_count:
        raise Refused(_wrong_number(plan))
    changed = Plan.objects.filter(pk=plan.pk, status=Plan.Status.READY).update(
        status=Plan.Status.AUTHORISED, updated_at=Now()
    )
    if not changed:
        raise Refused(_("Somebody else changed this plan at this moment. Read it again."))
    # From here on the rows are frozen, and it is by them that files go.
    rows = PlanFile.objects.filter(plan=plan, role=PlanFile.Role.REMOVE, is_out=False).count()
    if rows != plan.remove_count:
        raise Refused(_unlike_its_files(plan, rows))
    return plan


def version_of(plan: Plan) -> str:
    """Changes with every change of the plan."""
    return version_at(plan.updated_at)


def version_at(moment: datetime) -> str:
    """To the millisecond, as the API writes times."""
    try:
        return moment.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:  # the last day of the year 9999, west of here
        return str(moment)


def _not_ready(plan: Plan) -> str:
    if plan.status == Plan.Status.AUTHORISED:
        living = plan.acts.filter(verb=Act.Verb.ACT, status__in=Act.LIVING).first()
        by = living.authorised_by if living else "?"
        return _("This plan is authorised already, by %(who)s.") % {"who": by}
    if plan.status == Plan.Status.DONE:
        return _("This plan was carried out already. Plan again for what is left.")
    if plan.status == Plan.Status.DISCARDED:
        return _("This plan was discarded. Plan again.")
    return _("This plan is not made yet. Wait until it is ready, and read it.")


def _wrong_number(plan: Plan) -> str:
    words = ngettext(
        "The number typed is not the plan's: it has %(count)s file to act on. Nothing was done.",
        "The number typed is not the plan's: it has %(count)s files to act on. Nothing was done.",
        plan.remove_count,
    )
    return words % {"count": f"{plan.remove_count:,}"}


def _unlike_its_files(plan: Plan, rows: int) -> str:
    words = ngettext(
        "The plan says %(said)s, and has %(count)s file to act on: that is wrong. Nothing was done. Plan again.",
        "The plan says %(said)s, and has %(count)s files to act on: that is wrong. Nothing was done. Plan again.",
        rows,
    )
    return words % {"said": f"{plan.remove_count:,}", "count": f"{rows:,}"}


def _number(typed: int | str) -> int | None:
    """As people write it: 2310 and 2,310 and 2 310."""
    if isinstance(typed, int):
        return typed
    digits = "".join(typed.split()).replace(",", "")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else None


# --- The trash --------------------------------------------------------------------------------------------
def ask_undo(selection: Mapping[str, Any], *, actor: str) -> Act:
    """Bring files back from the trash. It needs no switch and no time to think: nothing is overwritten by it."""
    wanted = choosing_items.checked(selection)
    with transaction.atomic():
        plan = _plan_of(wanted)
        if plan is not None and plan.acts.filter(verb=Act.Verb.ACT, status__in=Act.LIVING).exists():
            raise Refused(_("This plan is being carried out. Cancel that first, then undo what was done."))
        files, size = choosing_items.figures(choosing_items.lying(wanted))
        if not files:
            raise Refused(_nothing_lies_there(wanted))
        act = _make(Act.Verb.UNDO, plan, wanted, files, size, actor, 0)
        _tell(act, "undo_asked", actor, files=files, **_plan_word(plan))
    return act


def authorise_emptying(selection: Mapping[str, Any], typed: int | str, *, actor: str) -> Act:
    """Let files of the trash be removed for good. `typed` is how many, as the person read it."""
    wanted = choosing_items.checked(selection)
    with transaction.atomic():
        if refusal := switching.why_not_remove():
            raise Refused(refusal)
        plan = _plan_of(wanted)
        files, size, in_hand = choosing_items.standing(wanted)
        if in_hand:
            raise Refused(_in_hand(in_hand))
        if not files:
            raise Refused(_("Nothing of this lies in the trash (any more)."))
        if _number(typed) != files:
            words = ngettext(
                "The number typed is not right: %(count)s file is meant. Nothing was done.",
                "The number typed is not right: %(count)s files are meant. Nothing was done.",
                files,
            )
            raise Refused(words % {"count": f"{files:,}"})
        act = _make(Act.Verb.EMPTY, plan, wanted, files, size, actor, _grace())
        _tell(act, "emptying_authorised", actor, files=files, size_bytes=size, **_plan_word(plan))
    return act


def _in_hand(count: int) -> str:
    """They are not counted, and may lie in the trash again when the act begins: then more would go than was typed."""
    words = ngettext(
        "%(count)s file of these is being moved, put back or removed at this moment. Wait until that has ended. "
        "Nothing was done.",
        "%(count)s files of these are being moved, put back or removed at this moment. Wait until that has ended. "
        "Nothing was done.",
        count,
    )
    return words % {"count": f"{count:,}"}


def _plan_of(selection: Mapping[str, Any]) -> Plan | None:
    if "plan" not in selection:
        return None
    plan = Plan.objects.filter(pk=selection["plan"]).first()
    if plan is None:
        raise NotThere(_("There is no such plan."))
    return plan


def _plan_word(plan: Plan | None) -> dict[str, Any]:
    return {} if plan is None else {"plan": plan.pk}


def _nothing_lies_there(selection: Mapping[str, Any]) -> str:
    if gone := choosing_items.deleted_for_good(selection):
        words = ngettext(
            "Nothing of this lies in the trash: %(count)s file was removed for good, and can't come back.",
            "Nothing of this lies in the trash: %(count)s files were removed for good, and can't come back.",
            gone,
        )
        return words % {"count": f"{gone:,}"}
    return _("Nothing of this lies in the trash (any more): there is nothing to undo.")


# --- What was authorised ----------------------------------------------------------------------------------
def stop(act_id: int, *, actor: str) -> Act:
    """Stop before it begins, or cancel between two files; what was done stays done, and can be undone. A stop that was
    granted holds after a power cut, too."""
    with durable_transaction():
        act = _living(act_id)
        # First the job, then the act, then the plan: its executor locks them in the same order.
        _cancel_job(act, actor)
        _tell(act, "stopped", actor)
        # While it is `authorised` no executor has set about it, and none can any more.
        is_unbegun = Act.objects.filter(pk=act.pk, status=Act.Status.AUTHORISED).update(
            status=Act.Status.CANCELLED, is_paused=False, updated_at=Now(), finished_at=Now()
        )
        if is_unbegun and act.verb == Act.Verb.ACT and act.plan_id is not None:
            Plan.objects.filter(pk=act.plan_id, status=Plan.Status.AUTHORISED).update(
                status=Plan.Status.READY, updated_at=Now()
            )
    return find(act_id)


def _cancel_job(act: Act, actor: str) -> None:
    if act.job_id is None:
        return
    with suppress(JobRefused):  # it may have ended a moment ago: then the act ends as the job did
        deciding.cancel(act.job_id, actor=actor, reason=f"{act} was stopped")


def pause(act_id: int, *, actor: str) -> Act:
    """Let it rest after the files in hand; nothing is given up."""
    with durable_transaction():
        act = _living(act_id)
        if act.is_paused:
            raise Refused(_("It is paused already."))
        held = Job.objects.filter(pk=act.job_id, status__in=Job.UNFINISHED)
        if not held.update(retry_after=NEVER, updated_at=Now()):
            raise Refused(_("It ends at this moment: there is nothing to pause."))
        Act.objects.filter(pk=act.pk).update(is_paused=True, updated_at=Now())
        _tell(act, "paused", actor)
    return find(act_id)


def resume(act_id: int, *, actor: str) -> Act:
    """Go on; one that was paused before its time waits for that first."""
    with transaction.atomic():
        act = _living(act_id)
        if not act.is_paused:
            raise Refused(_("It is not paused."))
        starts = Act.objects.filter(job_id=OuterRef("pk")).values("starts_at")[:1]
        Job.objects.filter(pk=act.job_id, status__in=Job.UNFINISHED).update(
            retry_after=Subquery(starts), updated_at=Now()
        )
        Act.objects.filter(pk=act.pk).update(is_paused=False, updated_at=Now())
        _tell(act, "resumed", actor)
        ring(deciding.QUEUE)
    return find(act_id)


def find(act_id: int) -> Act:
    act = Act.objects.select_related("job", "plan").filter(pk=act_id).first()
    if act is None:
        raise NotThere(_("There is no such act."))
    return act


def _living(act_id: int) -> Act:
    act = find(act_id)
    if not act.is_living:
        raise Refused(_("It has ended already: it is %(status)s.") % {"status": act.status})
    return act


# --- What every one needs ---------------------------------------------------------------------------------
def _grace() -> int:
    return int(settings.ACT_GRACE_SECONDS)


def _make(
    verb: str, plan: Plan | None, selection: Mapping[str, Any], files: int, size: int, actor: str, grace: int
) -> Act:
    """The act and the job that carries it out: that one is not due before the time to think is over."""
    act = Act.objects.create(
        verb=verb,
        plan=plan,
        selection=dict(selection),
        file_count=files,
        total_bytes=size,
        authorised_by=actor[:ACTOR_CHARACTERS],
        starts_at=SecondsFromNow(grace),
    )
    job = Job.objects.create(
        kind=Job.Kind.DELETE,
        dry_run=False,
        payload={"act_id": act.pk, "verb": str(verb)},
        retry_after=SecondsFromNow(grace) if grace else None,
    )
    Act.objects.filter(pk=act.pk).update(job=job)
    write_event("jobs", job.pk, "requested", actor=actor)
    ring(deciding.QUEUE)
    return find(act.pk)


def _tell(act: Act, word: str, actor: str, **about: Any) -> None:
    write_event("acts", str(act.pk), word, actor=actor, title=str(act), **about)
