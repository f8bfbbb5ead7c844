"""What happened to a group: what people said about it, and the plans it is in."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from duplicates.ignoring import ITEM
from duplicates.models import DuplicateGroup, Plan, PlanFile
from logbook.models import LogbookEvent
from logbook.showing import as_shown, shown

MOST_EVENTS = 50
#: Each of these plans is asked by its index whether the group is in it.
LATEST_PLANS = 200


def read_history(group: DuplicateGroup) -> dict[str, Any]:
    """For a page: events and plans, the newest first."""
    events = shown(LogbookEvent.objects.about(ITEM, group.key)).order_by("-id")
    return {"events": as_shown(list(events[:MOST_EVENTS])), "plans": _plans_with(group)}


def _plans_with(group: DuplicateGroup) -> list[Plan]:
    digest = {"hash_algorithm": group.hash_algorithm, "content_hash": bytes(group.content_hash)}
    latest = list(Plan.objects.order_by("-id").values_list("pk", flat=True)[:LATEST_PLANS])
    found = Plan.objects.filter(pk__in=latest).filter(Exists(PlanFile.objects.filter(plan=OuterRef("pk"), **digest)))
    return list(found.order_by("-id").annotate(now=Now()))
