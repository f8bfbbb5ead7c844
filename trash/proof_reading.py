"""The proof of an act, opened for whoever wants to have it: that file below the state folder, and never another."""

from __future__ import annotations

import os
import re
from stat import S_ISREG
from typing import BinaryIO

from django.utils.translation import gettext as _

from libraries.reading import OPEN_FOLDER
from trash.models import Act
from trash.proof import proof_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)
#: A pipe of that name would keep whoever opens it waiting.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NoProof(Exception):
    """There is none, and why."""


def open_proof(act: Act) -> BinaryIO:
    if not act.proof_name:
        raise NoProof(_("This act has no proof yet: it is written when the act has ended."))
    if not _NAME.fullmatch(act.proof_name):
        raise NoProof(_("The name of this proof can't be right; it is not opened."))
    try:
        folder = os.open(proof_folder(), OPEN_FOLDER)
        try:
            file = os.open(act.proof_name, _OPEN_FILE, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError:
        raise NoProof(_("The proof is not in the state folder any more.")) from None
    if not S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NoProof(_("What has the name of this proof is no file."))
    return os.fdopen(file, "rb")
