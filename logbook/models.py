"""The append-only memory: what is talked about (items) and what happened to it (events)."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import JSONField, Value
from django.db.models.functions import Now


class LogbookItem(models.Model):
    """One thing with a history: a row of a watched table, or a matter that a person opened.

    For a watched row `item_type` is its table and `subject_id` its key, and a trigger keeps `status` equal to the
    row's, whoever writes the row.
    """

    item_type = models.CharField(max_length=64)
    subject_id = models.CharField(max_length=128)
    title = models.CharField(max_length=255, db_default="")
    scope_json = models.JSONField(db_default=Value({}, JSONField()))
    status = models.CharField(max_length=32, db_default="open")
    owner = models.CharField(max_length=150, null=True, blank=True)  # noqa: DJ001  NULL: nobody's
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "logbook_items"
        constraints = [
            # The triggers find a row's item by it.
            models.UniqueConstraint(fields=["item_type", "subject_id"], name="ux_logbook_items_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.item_type} {self.subject_id}"


class LogbookEventQuerySet(models.QuerySet["LogbookEvent"]):
    def about(self, item_type: str, subject_id: str) -> LogbookEventQuerySet:
        """The history of one row, oldest first."""
        return self.filter(item__item_type=item_type, item__subject_id=str(subject_id)).order_by("id")


class LogbookEvent(models.Model):
    """Something that happened; never changed, never deleted.

    `status` events are written by triggers, one for each change of a status. The other types are written by the verbs,
    in the transaction of the change, and say who asked and why.
    """

    item = models.ForeignKey(LogbookItem, on_delete=models.PROTECT, related_name="events")
    #: Its item's: the events of one kind of thing are walked by an index of their own.
    item_type = models.CharField(max_length=64, db_default="")
    event_type = models.CharField(max_length=64)
    status_from = models.CharField(max_length=32, null=True, blank=True)  # noqa: DJ001  NULL: no such row before
    status_to = models.CharField(max_length=32, null=True, blank=True)  # noqa: DJ001  NULL: the row is gone
    worker_id = models.CharField(max_length=128, null=True, blank=True)  # noqa: DJ001
    error_code = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    payload_json = models.JSONField(db_default=Value({}, JSONField()))
    actor = models.CharField(max_length=150, null=True, blank=True)  # noqa: DJ001
    source = models.CharField(max_length=32, db_default="tool")
    created_at = models.DateTimeField(db_default=Now())

    objects = LogbookEventQuerySet.as_manager()

    class Meta:
        db_table = "logbook_events"
        ordering = ["-id"]
        indexes = [
            # The history of one item, in order.
            models.Index(fields=["item", "created_at"], name="ix_logbook_events_item"),
            # The newest of one kind of thing, however rare they are among the others.
            models.Index(fields=["item_type", "id"], name="ix_logbook_events_kind"),
            # "How often did consumers die today?"
            models.Index(fields=["event_type", "created_at"], name="ix_logbook_events_type"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.status_from or ''}→{self.status_to or ''}"


def write_event(
    item_type: str,
    subject_id: str,
    event_type: str,
    *,
    actor: str | None = None,
    source: str = "tool",
    using: str = "default",
    title: str = "",
    **payload: Any,
) -> LogbookEvent:
    """Append one event; the caller's transaction carries it together with the change it tells of."""
    item, _ = LogbookItem.objects.using(using).get_or_create(
        item_type=item_type, subject_id=str(subject_id), defaults={"title": title}
    )
    return LogbookEvent.objects.using(using).create(
        item=item, item_type=item_type, event_type=event_type, actor=actor, source=source, payload_json=payload
    )
