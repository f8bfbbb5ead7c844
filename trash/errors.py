"""What ends an act before all of its files were looked at; the words are for the person who authorised it."""

from __future__ import annotations


class ActFailed(Exception):
    """Nothing more can be done, and why. What was done stays done."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class ActVoid(ActFailed):
    """The database is older than what was done on the disk: the approval in it counts no more."""
