"""What can go wrong in this room; the words are for the person who asked."""

from __future__ import annotations

from jobs import errors


class LibrariesError(Exception):
    """Something about a library, a scan or a hash job."""


class Refused(LibrariesError, errors.Refused):
    """What was asked for is not possible; the message says why and what to do."""


class NotThere(LibrariesError):
    """There is no such library or scan request."""
