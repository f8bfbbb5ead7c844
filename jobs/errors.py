"""What can go wrong with background work; the message is for a person."""

from __future__ import annotations


class JobsError(Exception):
    """The base of this room's errors."""


class LeaseLost(JobsError):
    """The claim is no longer ours: stop, write nothing more."""


class Stopping(JobsError):
    """The consumer was asked to stop; the handler returns what it holds."""


class GivesWay(Stopping):
    """The handler gives its row back by itself, for the reason that the row then carries; no failed attempt."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Refused(JobsError):
    """A person's wish that the row's state or the policy doesn't allow."""
