"""How many thumbnails were made, and how many could not be."""

from __future__ import annotations

from logbook.counting import EventCount

RENDERS = EventCount(
    "rendered",
    "status_to",
    "item_type = 'thumbnails' AND status_from = 'running' AND status_to IN ('ready', 'failed')",
)
