"""Emptying by age without asking anybody: what an admin allowed once on the settings page, carried out by cron."""

from __future__ import annotations

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from jobs.models import Job
from libraries.errors import Refused
from logbook.models import LogbookEvent
from trash import choosing_items, switching
from trash.authorising import authorise_emptying
from trash.models import Act, Switches


def ask_emptying_by_age(days: int, *, actor: str) -> Act | None:
    """Make the act that empties what has lain in the trash for so many days; None where there is nothing. Raises
    `Refused` where no admin has allowed it."""
    switches = switching.switches()
    allowed = switches.empty_after_days
    if allowed is None:
        raise Refused(
            _(
                "Nobody has allowed emptying the trash by age. An admin can, on the settings page: “empty the trash"
                " after … days”. Or empty it on the page of the trash, where each time an admin types the number."
            )
        )
    if days < allowed:
        words = _(
            "Allowed is emptying what is older than %(allowed)s days; ask for that many days or more, not %(days)s."
        )
        raise Refused(words % {"allowed": allowed, "days": days})
    if words := switching.why_not_remove():
        raise Refused(words)
    selection = {"older_than_days": days}
    with transaction.atomic():
        count, _size = choosing_items.figures(choosing_items.lying(selection))
        if not count:
            return None
        # The admin's number is the number of days; the number of files is this moment's.
        act = authorise_emptying(selection, count, actor=f"{_who(switches)} (standing order, run by {actor})")
        # Nobody sits before it who could think better of it.
        Job.objects.filter(pk=act.job_id).update(retry_after=None)
        Act.objects.filter(pk=act.pk).update(starts_at=Now())
    return Act.objects.get(pk=act.pk)


def _who(switches: Switches) -> str:
    """Who said after how many days: the last one who changed that."""
    events = LogbookEvent.objects.about("switches", str(switches.pk)).filter(event_type="switched").order_by("-id")
    for event in events:
        if "empty_after_days" in event.payload_json:
            return event.actor or "?"
    return switches.updated_by or "?"
