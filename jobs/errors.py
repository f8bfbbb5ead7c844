"""What can go wrong with background work; the message is for a person."""

from __future__ import annotations


class JobsError(Exception):
    """The base of this room's errors."""


class LeaseLost(JobsError):
    """The claim is no longer ours: stop, write nothing more."""


class Stopping(JobsError):
    """The consumer was asked to stop; the handler returns what it holds."""


class Refused(JobsError):
    """A person's wish that the row's state or the policy doesn't allow."""
