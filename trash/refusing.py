"""Why nothing is done to a file: a code for programs, words for people."""

from __future__ import annotations

import errno

from libraries.reading import OutsideLibrary, reason_of

#: errno → code and words, the same whatever step it was that failed.
_CODES = {
    errno.EROFS: ("READ_ONLY", "The filesystem is mounted read-only."),
    errno.EACCES: ("READ_ONLY", "DedupFS may not change this folder."),
    errno.EPERM: ("READ_ONLY", "The filesystem does not allow it."),
    errno.ENOSPC: ("DISK_FULL", "The disk is full."),
    errno.EDQUOT: ("DISK_FULL", "The quota of the disk is used up."),
    errno.EXDEV: ("OTHER_FILESYSTEM", "It lies on another filesystem."),
    errno.EMLINK: ("TOO_MANY_LINKS", "The file that stays has as many names as its filesystem allows."),
    errno.EEXIST: ("PLACE_TAKEN", "Something else has its name."),
    errno.ELOOP: ("NOT_A_FILE", "It, or a folder on the way to it, is a link by now."),
    errno.ENOTDIR: ("NOT_A_FILE", "A folder on the way to it is something else by now."),
}


class Refusal(Exception):
    """Nothing is done to this file, and why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Stranded(Refusal):
    """The file lies in the trash and could not be moved back: its place is taken by now."""


def refused(error: OSError, *, gone: str, what: str = "The file") -> Refusal:
    """What an error of the disk means; `gone` is the code for a name that is not there."""
    if isinstance(error, OutsideLibrary):
        return Refusal("OUTSIDE", f"{what} does not stay inside its library.")
    if error.errno == errno.ENOENT:
        return Refusal(gone, f"{what} is not there any more.")
    if error.errno in _CODES:
        return Refusal(*_CODES[error.errno])
    return Refusal("UNREADABLE", f"{what}: {reason_of(error)}")
