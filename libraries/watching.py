"""Looking whether the libraries are there, now and then and by consumers only: pages show what was found last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from database.routing import EXECUTOR
from jobs import stopping
from jobs.enforcing import transaction_on
from jobs.executing import worker_name
from jobs.models import Job
from libraries import asking
from libraries.asking import Look, Question
from libraries.changing import ITEM
from libraries.first_file import Visible
from libraries.losing import Looking
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanSession
from libraries.mount_guard import NotTheSame, compare, empty_inside, looked_after
from libraries.names import to_bytes
from libraries.reading import Trouble
from logbook.models import write_event

Mount = LibraryState.Mount
TROUBLED = (Mount.ABSENT, Mount.EMPTY, Mount.DIFFERENT)
DOES_NOT_ANSWER = "It does not answer: its disk hangs, or its share is gone."
SESSION_LEFT = "The scan was broken off: its job no longer runs."


@dataclass(frozen=True)
class Verdict:
    """What a look says about a library, against what is remembered of it."""

    mount: LibraryState.Mount
    note: str = ""
    is_writable: bool | None = None


def judge(look: Look | None, remembered: Mapping[str, str], *, held_files: bool) -> Verdict:
    """`remembered` are the filesystems that the library looks after; `held_files` whether it had files when it was last
    seen."""
    if look is None:
        return Verdict(Mount.ABSENT, DOES_NOT_ANSWER)
    if look.problem:
        return Verdict(Mount.ABSENT, f"It can't be read: {look.problem}.")
    other = _other_disk(look, remembered)
    if other:
        return Verdict(Mount.DIFFERENT, other, look.is_writable)
    if look.is_empty and held_files:
        return Verdict(Mount.EMPTY, "It is empty, and was not before.", look.is_writable)
    return Verdict(Mount.PRESENT, "", look.is_writable)


def _other_disk(look: Look, remembered: Mapping[str, str]) -> str:
    try:
        compare(remembered, look.filesystems or {})
    except NotTheSame as problem:
        return str(problem)
    return ""


# --- The look ---------------------------------------------------------------------------------------------
def look_at_all() -> int:
    """Look at every library and write down what was found; return how many are there.

    All are asked at once and each has the same time, so a dead disk holds up no other.
    """
    libraries = list(LibraryRoot.objects.using(EXECUTOR).kept())
    troubled = set(LibraryState.objects.using(EXECUTOR).filter(mount__in=TROUBLED).values_list("pk", flat=True))
    looks = asking.ask(
        {each.pk: _question(each, is_troubled=each.pk in troubled) for each in libraries},
        give_up=stopping.is_requested,
    )
    if stopping.is_requested():
        return 0  # what was not answered may only have been asked too late
    return sum(_note(library, looks[library.pk]) for library in libraries)


def _question(library: LibraryRoot, *, is_troubled: bool) -> Question:
    """Disks inside are looked into only while something is wrong: before, that is a scan's, and may wake them up."""
    patterns = tuple(library.exclude_patterns.splitlines())
    visible = Visible(patterns, library.min_size_bytes) if is_troubled else None
    return Question(to_bytes(library.root_path), visible=visible)


def _note(library: LibraryRoot, look: Look | None) -> bool:
    empty = _empty_inside(library, look)
    with transaction_on("look"):
        states = LibraryState.objects.using(EXECUTOR).filter(library_id=library.pk)
        state = states.select_for_update().first()
        held = look is not None and look.is_empty and _held_files(library)
        remembered = looked_after(state.filesystems if state else {}, library.exclude_patterns)
        verdict = judge(look, remembered, held_files=held)
        if verdict.mount == Mount.PRESENT and state is not None and state.mount in TROUBLED:
            verdict = replace(verdict, **_still(state, look, empty))
        found: dict[str, Any] = {"mount": verdict.mount, "mount_note": verdict.note, "is_writable": verdict.is_writable}
        if verdict.mount == Mount.PRESENT and look and not (state and state.filesystems):
            # seen for the first time, as libraries that were adopted are
            found["filesystems"] = looked_after(look.filesystems or {}, library.exclude_patterns)
        if state is None:
            _create(library, found)
        else:
            states.update(checked_at=Now(), updated_at=Now(), **found)
        _tell(library, state.mount if state else Mount.UNKNOWN, verdict)
    return verdict.mount == Mount.PRESENT


def _empty_inside(library: LibraryRoot, look: Look | None) -> str:
    """What a scan would say of the first disk inside that holds no file, where the index has some; or nothing."""
    for folder, unread in ((look and look.without_files) or {}).items():
        if unread is None:
            continue  # nobody knows
        looking = Looking(library, [Trouble(path, True, "") for path in unread])
        if looking.had_files_below(folder):
            return str(empty_inside(folder, library.name))
    return ""


def _still(state: LibraryState, look: Look | None, empty: str) -> dict[str, Any]:
    """What stays wrong with a library that seems to be there again: a scan said so, and only what a scan would see
    takes that back."""
    if empty:
        return {"mount": Mount.EMPTY, "note": empty}
    found = look.without_files if look else None
    # A scan has just found it, when nobody had asked; or there was no time to look through all of a disk.
    is_unknown = found is None or (state.mount == Mount.EMPTY and None in found.values())
    return {"mount": Mount(state.mount), "note": state.mount_note} if is_unknown else {}


def _create(library: LibraryRoot, found: dict[str, Any]) -> None:
    """Unless the library went meanwhile, or another consumer was first."""
    if LibraryRoot.objects.using(EXECUTOR).filter(pk=library.pk).exists():
        state = LibraryState(library_id=library.pk, checked_at=Now(), **found)
        LibraryState.objects.using(EXECUTOR).bulk_create([state], ignore_conflicts=True)


def _tell(library: LibraryRoot, before: str, verdict: Verdict) -> None:
    """Only a change is news; that a new library is there is none."""
    if verdict.mount == before or (before, verdict.mount) == (Mount.UNKNOWN, Mount.PRESENT):
        return
    write_event(
        ITEM,
        str(library.pk),
        "mount",
        actor=worker_name(),
        using=EXECUTOR,
        title=library.name,
        mount_from=str(before),
        mount_to=str(verdict.mount),
        note=verdict.note,
    )


def _held_files(library: LibraryRoot) -> bool:
    return LibraryFile.objects.using(EXECUTOR).filter(library_id=library.pk, is_missing=False).exists()


# --- Sessions that nobody will end ------------------------------------------------------------------------
def close_orphaned_sessions() -> int:
    """Policy's: sessions that say running while their job does not (killed, cancelled, adopted) failed.

    A session without a job is a foreign worker's; it is left alone while any scan runs.
    """
    running = Job.objects.filter(status="running")
    orphaned = Q(job__isnull=False) & ~Q(job__in=running)
    if not running.filter(kind=Job.Kind.SCAN).exists():
        orphaned |= Q(job__isnull=True)
    sessions = ScanSession.objects.filter(orphaned, status="running")
    return sessions.update(status="failed", finished_at=Now(), updated_at=Now(), error_message=SESSION_LEFT)
