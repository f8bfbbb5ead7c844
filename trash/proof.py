"""The proof of an act: one JSON line for each file, with what was compared, what was done and who approved it.

It is written from the records (`trash.proof_lines`) into `STATE_ROOT/proofs/`. Its SHA-256 goes into the logbook, so
that nobody can change the file unnoticed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from django.conf import settings

from database.routing import EXECUTOR
from database.sqlite_files import sync_folder
from trash.models import Act
from trash.proof_lines import END, Lines

FOLDER = "proofs"


class ProofDraft:
    """A proof on its way. Where there are many files, the lines of those that are recorded need not wait for the end.
    Use it as a context: what was not finished then is taken away."""

    def __init__(self, act: Act, using: str = EXECUTOR) -> None:
        self._act, self._using = act, using
        self._folder, self._name = proof_folder(), f"act-{act.pk}-{act.key}.jsonl"
        self._path = self._folder / f".{self._name}.new"
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._leave(self._file)

    def write_up_to(self, last: int) -> None:
        """Every file of the plan up to this one is on record, and nobody changes that before the act has ended. What
        can't be written now is begun anew at the next time; at the end the reason is raised."""
        try:
            self._write(last)
        except OSError:
            if self._file is not None:
                self._leave(self._file)

    def finish(self) -> tuple[str, str]:
        """Write what is left; return its name and its SHA-256. It is whole on the disk then."""
        file = self._write(END)
        file.flush()
        os.fsync(file.fileno())
        self._path.replace(self._folder / self._name)
        sync_folder(self._folder)
        return self._name, self._digest.hexdigest()

    def _write(self, last: int) -> BinaryIO:
        file = self._file if self._file is not None else self._begin()
        for lines in self._lines.following(last):
            self._add(file, lines)
        return file

    def _begin(self) -> BinaryIO:
        self._lines, self._digest = Lines(self._act, self._using), hashlib.sha256()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._path.open("wb")
        os.fchmod(self._file.fileno(), 0o600)
        self._add(self._file, [self._lines.head()])
        return self._file

    def _add(self, file: BinaryIO, lines: Iterable[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        self._digest.update(data)
        file.write(data)

    def _leave(self, file: BinaryIO) -> None:
        self._file = None
        with suppress(OSError):
            file.close()  # a full disk tells once more what it told before
        self._path.unlink(missing_ok=True)


def write_proof(act: Act, using: str = EXECUTOR) -> tuple[str, str]:
    """Write the proof of what is recorded now; return its name and its SHA-256. It is whole on the disk, or not
    there."""
    with ProofDraft(act, using) as draft:
        return draft.finish()


def proof_folder() -> Path:
    return Path(settings.STATE_ROOT) / FOLDER
