"""What the tables of this room need in the database beside their columns."""

from __future__ import annotations

from database.transitions import guards
from logbook.recording import Watched, recorders
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

OBJECTS = [
    *guards("thumbnails", Thumbnail.MOVES),
    *guards("thumbnail_cleanup_jobs", ThumbnailCleanupJob.MOVES),
    *recorders(Watched("thumbnails", "'thumbnail ' || NEW.thumb_key")),
    *recorders(Watched("thumbnail_cleanup_jobs", "'cleanup of ' || substr(NEW.group_key, 1, 200)")),
]
