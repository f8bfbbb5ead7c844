"""Adding a library: a folder below the libraries' roots that shares no file with a library there is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from libraries import asking, mounts
from libraries.asking import Look, Question
from libraries.changing import ITEM, WrongValue, checked, save
from libraries.errors import Refused
from libraries.models import LibraryRoot, LibraryState
from libraries.mount_guard import looked_after
from libraries.names import to_bytes, to_display, to_text
from logbook.models import write_event

PATH_CHARACTERS = 2048
#: How often two people who add libraries at the same moment may come between each other.
TRIES = 5

Places = Iterable[tuple[int, bytes]]


@dataclass(frozen=True)
class Seen:
    """What the disk says about the wanted folder and about all that it must not meet."""

    wanted: Look
    roots: tuple[Look, ...]
    state: Look
    demos: Look
    others: dict[int, Look | None]


def add(name: str, path: str | bytes, *, actor: str, **choices: Any) -> LibraryRoot:
    """Add the folder at `path`, or raise `Refused` with the reason.

    The disk is asked outside any transaction. If another library was added meanwhile, all is asked again.
    """
    wanted = _as_bytes(path)
    chosen = checked({"name": name, **choices})
    for _try in range(TRIES):
        others = _others()
        look = _check(wanted, others)
        with transaction.atomic():
            _one_at_a_time()
            if _others().keys() <= others.keys():
                return _insert(look, chosen, actor)
    raise Refused(_("Others are adding libraries at this moment. Try again."))


def _others() -> dict[int, LibraryRoot]:
    return {library.pk: library for library in LibraryRoot.objects.kept()}


def _one_at_a_time() -> None:
    """SQLite has one writer; on PostgreSQL two could look, see nothing of each other, and both insert."""
    if connections["default"].vendor == "postgresql":
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('add library'))")


def _insert(look: Look, chosen: dict[str, Any], actor: str) -> LibraryRoot:
    checked(chosen)  # the name may have been taken since
    root_path = to_text(look.real)
    if len(root_path) > PATH_CHARACTERS:
        words = _("The path has more than %(most)d characters. Mount the folder higher up.")
        raise WrongValue("path", words % {"most": PATH_CHARACTERS})
    library = LibraryRoot.objects.create(name=chosen.pop("name"), root_path=root_path)
    save(library, chosen)
    LibraryState.objects.create(
        library=library,
        mount=LibraryState.Mount.PRESENT,
        filesystems=looked_after(look.filesystems or {}, library.exclude_patterns),
        is_writable=look.is_writable,
        checked_at=Now(),
    )
    write_event(ITEM, str(library.pk), "added", actor=actor, title=library.name, root_path=root_path, **chosen)
    return library


# --- The path ---------------------------------------------------------------------------------------------
def _as_bytes(path: str | bytes) -> bytes:
    """As the disk knows it. Text may come from a command line (with its own escapes) or from a column of ours."""
    if isinstance(path, str):
        path = os.fsencode(path) if any("\ud800" <= c <= "\udfff" for c in path) else to_bytes(path)
    shown = to_display(to_text(path[:200]))
    if not path.strip():
        raise WrongValue("path", _("A library needs a folder."))
    if b"\0" in path:
        raise WrongValue("path", _("“%(path)s” holds a NUL character, which no path has.") % {"path": shown})
    if not path.startswith(b"/"):
        words = _("“%(path)s” is not a whole path. Write it from the root: “/…”.")
        raise WrongValue("path", words % {"path": shown})
    if b".." in path.split(b"/"):
        raise WrongValue("path", _("“%(path)s”: write the path without “..”.") % {"path": shown})
    return path


def _check(path: bytes, others: dict[int, LibraryRoot]) -> Look:
    """Look at the disk and refuse what can't be a library."""
    seen = _look(path, others)
    shown = to_display(to_text(seen.wanted.real))
    if seen.wanted.problem:
        words = _("%(path)s is no folder that can be read: %(problem)s.")
        raise WrongValue("path", words % {"path": shown, "problem": seen.wanted.problem})
    _refuse_outside(seen, shown)
    _refuse_state(seen, shown)
    for key, other in others.items():
        _refuse_overlap(seen.wanted, other, seen.others[key])
    return seen.wanted


def _look(path: bytes, others: dict[int, LibraryRoot]) -> Seen:
    state = os.fsencode(settings.STATE_ROOT)
    roots = [os.fsencode(Path(root)) for root in settings.LIBRARIES_ROOTS]
    questions: dict[str | int, Question] = {
        "wanted": Question(path),
        "state": Question(state, where=True),
        "demos": Question(state + b"/libraries", where=True),
        **{f"root {number}": Question(root, where=True) for number, root in enumerate(roots)},
        **{key: Question(to_bytes(other.root_path), where=True) for key, other in others.items()},
    }
    answers = asking.ask(questions)
    wanted, state_look, demos = (answers[key] for key in ("wanted", "state", "demos"))
    if wanted is None or state_look is None or demos is None:
        words = _("%(path)s does not answer. See that its disk or share is there.")
        raise WrongValue("path", words % {"path": to_display(to_text(path))})
    found = (answers[f"root {number}"] for number in range(len(roots)))
    known = tuple(look for look in (*found, demos) if look is not None)
    return Seen(wanted, known, state_look, demos, {key: answers[key] for key in others})


def _refuse_outside(seen: Seen, shown: str) -> None:
    if not any(mounts.is_at_or_below(seen.wanted.real, root.real) for root in seen.roots):
        roots = ", ".join(to_display(str(root)) for root in settings.LIBRARIES_ROOTS)
        words = _("%(path)s is not below %(roots)s. Add its folder to DEDUPFS_LIBRARIES_ROOT and restart.")
        raise WrongValue("path", words % {"path": shown, "roots": roots})


def _refuse_state(seen: Seen, shown: str) -> None:
    """The state folder holds the database: never part of a library, but for the folder made for libraries."""
    own, free = seen.state.places[0], seen.demos.places[0]
    for place in seen.wanted.places:
        is_inside = _is_below(place, own) and not _is_below(place, free)
        if is_inside or _is_below(own, place):
            state = to_display(to_text(seen.state.real))
            words = _("%(path)s shares files with DedupFS's own folder %(folder)s. Choose another folder.")
            raise WrongValue("path", words % {"path": shown, "folder": state})


def _is_below(place: tuple[int, bytes], other: tuple[int, bytes]) -> bool:
    return place[0] == other[0] and mounts.is_at_or_below(place[1], other[1])


def _refuse_overlap(wanted: Look, other: LibraryRoot, look: Look | None) -> None:
    """A file would be its own duplicate. A library whose disk is silent is compared by its path alone."""
    real, path = wanted.real, to_bytes(other.root_path)
    paths = [path] if look is None else [path, look.real]
    reasons = [_relation(real, each) for each in paths]
    if look is not None and mounts.overlap(list(wanted.places), list(look.places)):
        reasons.append(_("%(path)s shares files, by a mount or a link, with the library “%(name)s” (%(root)s)."))
    words = next((each for each in reasons if each), None)
    if words:
        named = {"name": to_display(other.name), "root": to_display(other.root_path)}
        raise WrongValue("path", words % {"path": to_display(to_text(real)), **named})


def _relation(path: bytes, other: bytes) -> str | None:
    """Whole sentences: where the verb stands is another thing in every language."""
    if path == other:
        return _("%(path)s is already the library “%(name)s” (%(root)s).")
    if mounts.is_at_or_below(path, other):
        return _("%(path)s lies inside the library “%(name)s” (%(root)s).")
    if mounts.is_at_or_below(other, path):
        return _("%(path)s contains the library “%(name)s” (%(root)s).")
    return None
