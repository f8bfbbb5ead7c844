"""A copy of a content that is in no trash: found by its path, opened without following links, and read again.

Emptying asks for one before the trash gives up a file for good. What the index says is only where to look: nothing is
believed that was not read now.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from stat import S_ISREG
from typing import NamedTuple

from database.routing import EXECUTOR
from duplicates.facts import Digest, Place, present_files
from duplicates.models import PlanFile
from libraries import mounts
from libraries.excluding import TRASH
from libraries.names import to_bytes
from libraries.reading import Reader, open_folder, version_of
from trash.moving import still_there
from trash.proving import Found, Prover, is_same_file, open_name, refuse_keeper_touched
from trash.refusing import Refusal

#: A content may have thousands of copies in the index; so many that turn out to be none are enough.
MOST_TRIED = 100
#: Contents whose living copy is remembered; each is looked up anew all the same.
MOST_KNOWN = 1_000
#: Of so many contents it is known what was read; the smaller ones are kept in memory for that.
MOST_READ = 32
_CHANGED = frozenset({"VICTIM_CHANGED"})


class Copy(NamedTuple):
    """A file outside every trash, open, that had the content's bytes when it was read."""

    root: bytes
    path: bytes
    file: Found


class _Known(NamedTuple):
    root: bytes
    path: bytes


class LivingCopies:
    """Looks for them; `report` is told of the bytes as they are read."""

    def __init__(self, places: Mapping[int, Place], report: Callable[[int], None]) -> None:
        self.places, self.report, self.reader = places, report, Reader()
        #: Content → where its living copy was found last.
        self._known: OrderedDict[Digest, _Known] = OrderedDict()
        #: One for each content in hand: it remembers which version of a copy it has read.
        self._provers: OrderedDict[Digest, Prover] = OrderedDict()
        self._outside: dict[tuple[bytes, bytes], bool] = {}
        #: The version of the file in the trash that was hashed last, and whether it is what was put there.
        self._hashed: tuple[tuple[int, ...], bool] = ((), False)

    def forget(self) -> None:
        """A new batch begins: what was read before is read again."""
        self._provers.clear()
        self._outside.clear()
        self._hashed = ((), False)

    def prove(self, digest: Digest, keeper: PlanFile | None, trashed: Found) -> Copy:
        """A living copy with exactly the bytes of the file in the trash, still at its place; whoever gets it closes
        it. Raises `Refusal`: `LAST_COPY` where there is none, `TRASH_CHANGED` where the trash has other bytes."""
        for root, path in self._candidates(digest, keeper):
            copy = self._open(root, path)
            if copy is None:
                continue
            try:
                if self._has_same_bytes(digest, copy, trashed):
                    self._remember(digest, copy)
                    return copy
            except BaseException:
                os.close(copy.file.handle)
                raise
            os.close(copy.file.handle)
        raise Refusal(
            "LAST_COPY", "No other copy of it was found outside the trash: it may be the last one, so it stays."
        )

    # --- Where to look ------------------------------------------------------------------------------------
    def _candidates(self, digest: Digest, keeper: PlanFile | None) -> Iterator[_Known]:
        """Where one was found a moment ago, then the file that stayed, then whatever the index has."""
        tried = set()
        for known in self._all_candidates(digest, keeper):
            if known not in tried:
                yield known
            tried.add(known)
            if len(tried) > MOST_TRIED:
                return

    def _all_candidates(self, digest: Digest, keeper: PlanFile | None) -> Iterator[_Known]:
        if digest in self._known:
            yield self._known[digest]
        if keeper is not None and keeper.library_id in self.places:
            yield self._place_of(keeper.library_id, keeper.relative_path)
        for file in present_files(digest, EXECUTOR)[: MOST_TRIED + 2]:
            if file.library_id in self.places:
                yield self._place_of(file.library_id, file.relative_path)

    def _place_of(self, library: int, path: str) -> _Known:
        return _Known(to_bytes(self.places[library].root_path), to_bytes(path))

    def _open(self, root: bytes, path: bytes) -> Copy | None:
        """The file at that path; None where there is none, or where it is in a trash."""
        above, _, name = path.rpartition(b"/")
        try:
            if not self._is_outside(root, above):
                return None
            folder = open_folder(root, above)
            try:
                handle = open_name(folder, name)
            finally:
                os.close(folder)
        except OSError:
            return None
        info = os.fstat(handle)
        if not S_ISREG(info.st_mode):
            os.close(handle)
            return None
        return Copy(root, path, Found(handle, info))

    def _is_outside(self, root: bytes, folder: bytes) -> bool:
        """Whether a folder is in no trash, by whatever way one comes to it: a trash may be mounted somewhere else."""
        key = (root, folder)
        if key not in self._outside:
            if len(self._outside) > MOST_KNOWN:
                self._outside.clear()
            _device, inside = mounts.canonical(root + b"/" + folder if folder else root)
            self._outside[key] = TRASH.encode() not in [*root.split(b"/"), *folder.split(b"/"), *inside.split(b"/")]
        return self._outside[key]

    # --- What it has --------------------------------------------------------------------------------------
    def _has_same_bytes(self, digest: Digest, copy: Copy, trashed: Found) -> bool:
        """Byte for byte, or by the digest where this very version of the copy was read already."""
        if is_same_file(copy.file.info, trashed.info):
            # One more name of the file in the trash, outside of it: it stays when the name in the trash goes.
            return copy.file.info.st_nlink > 1 and _is_kept(copy)
        if copy.file.info.st_size != trashed.info.st_size:
            return False
        prover = self._prover(digest)
        try:
            prover.prove(copy.file, trashed, digest[1])
        except Refusal as refusal:
            if refusal.code in _CHANGED or self._trash_differs(prover, trashed, digest):
                raise Refusal(
                    "TRASH_CHANGED", "The file in the trash is not what was put there; it is left as it is."
                ) from None
            return False
        return _is_kept(copy)

    def _trash_differs(self, prover: Prover, trashed: Found, digest: Digest) -> bool:
        """The two differ: whether it is the one in the trash that has other bytes than recorded. Read once, however
        many files turn out to be no copy of it."""
        version = version_of(trashed.info)
        if self._hashed[0] != version:
            try:
                self._hashed = (version, prover.hash(trashed.handle) == digest[1])
            except OSError:
                return True
        return not self._hashed[1]

    def _prover(self, digest: Digest) -> Prover:
        found = self._provers.pop(digest, None) or Prover(digest[0], self.report, self.reader)
        self._provers[digest] = found
        while len(self._provers) > MOST_READ:
            self._provers.popitem(last=False)
        return found

    def _remember(self, digest: Digest, copy: Copy) -> None:
        self._known[digest] = _Known(copy.root, copy.path)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def refuse_lost(copy: Copy) -> None:
    """Raise `Refusal` unless its path still leads to it, unchanged since it was opened."""
    still_there(copy.root, copy.path, copy.file.info)
    refuse_keeper_touched(copy.file)


def _is_kept(copy: Copy) -> bool:
    try:
        refuse_lost(copy)
    except Refusal:
        return False
    return True
