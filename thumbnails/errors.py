"""What can go wrong in this room; the words are for the person who asked."""

from __future__ import annotations


class ThumbnailsError(Exception):
    """Something about a thumbnail or its clean-up."""
