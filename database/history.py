"""What happened to the database itself, appended to the logbook by the names of its tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

ITEM = ("database", "database", "the database")
MAKE_ITEM = "INSERT INTO logbook_items (item_type, subject_id, title) VALUES ({0}, {0}, {0}) ON CONFLICT DO NOTHING"
APPEND = (
    "INSERT INTO logbook_events (item_id, item_type, event_type, payload_json, source)"
    " SELECT id, item_type, {0}, {0}, 'command' FROM logbook_items WHERE item_type = {0} AND subject_id = {0}"
)


def write_event_into(
    connection: sqlite3.Connection, event: str, detail: Mapping[str, Any], item: tuple[str, str, str] = ITEM
) -> None:
    """Append one event about `item` (type, key, title) to a file; the transaction is the caller's."""
    connection.execute(MAKE_ITEM.format("?"), item)
    connection.execute(APPEND.format("?"), [event, json.dumps(detail), *item[:2]])


def write_event(connection: BaseDatabaseWrapper, event: str, detail: Mapping[str, Any]) -> None:
    """Append one event about the database that Django is connected to."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(MAKE_ITEM.format("%s"), ITEM)
        cursor.execute(APPEND.format("%s"), [event, json.dumps(detail), *ITEM[:2]])
