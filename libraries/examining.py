"""What `doctor` looks at in this room. Libraries' disks are not touched: what consumers last found is told."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from database.clock import SecondsFromNow
from database.examining import Finding, ok, register_check, warning
from libraries import asking
from libraries.asking import Question
from libraries.models import LibraryRoot, LibraryState, ScanSession
from libraries.mounts import is_at_or_below
from libraries.names import to_bytes, to_display

#: How long rows of a removed library may take to go before a person should look.
REMOVING_SECONDS = 3600
AWAY = (LibraryState.Mount.ABSENT, LibraryState.Mount.EMPTY, LibraryState.Mount.DIFFERENT)


@register_check("libraries")
def check_libraries() -> Iterator[Finding]:
    found = [*_roots(), *_away(), *_gone(), *_stuck(), *_orphaned()]
    yield from found
    if not found:
        count = LibraryRoot.objects.kept().count()
        yield ok(f"{count} are there" if count else "there is none yet")


def _roots() -> Iterator[Finding]:
    """Libraries below none of the configured roots are scanned, but could not be added again."""
    roots = [to_bytes(str(root)) for root in settings.LIBRARIES_ROOTS]
    looks = asking.ask({root: Question(root, where=True) for root in [*roots, to_bytes(str(settings.STATE_ROOT))]})
    known = [look.real for look in looks.values() if look is not None]
    for library in LibraryRoot.objects.kept():
        if not any(is_at_or_below(to_bytes(library.root_path), root) for root in known):
            yield warning(
                f"“{to_display(library.name)}” ({to_display(library.root_path)}) is below no configured root",
                "add its folder to DEDUPFS_LIBRARIES_ROOT",
            )


def _away() -> Iterator[Finding]:
    states = LibraryState.objects.filter(mount__in=AWAY, library__removing_at__isnull=True)
    for state in states.select_related("library"):
        yield warning(
            f"“{to_display(state.library.name)}” is {state.mount}: {to_display(state.mount_note)}",
            f"see that its disk is mounted at {to_display(state.library.root_path)}; until then it is not scanned",
        )


def _gone() -> Iterator[Finding]:
    for state in LibraryState.objects.filter(gone_count__gt=0).select_related("library"):
        name = to_display(state.library.name)
        yield warning(
            f"{state.gone_count:,} files of “{name}” were gone at the last scan, too many to be believed",
            f"look at the disk; if they are really gone: `manage.py scan {name!r} --accept-missing`",
        )


def _stuck() -> Iterator[Finding]:
    count = LibraryRoot.objects.filter(removing_at__lte=SecondsFromNow(-REMOVING_SECONDS)).count()
    if count:
        yield warning(f"{count} removed libraries still have rows", "see that a consumer runs: start `manage.py up`")


def _orphaned() -> Iterator[Finding]:
    running = ScanSession.objects.filter(status="running", job__isnull=False)
    count = running.exclude(job__status="running").filter(updated_at__lte=SecondsFromNow(-REMOVING_SECONDS)).count()
    if count:
        yield warning(f"{count} scans say that they run, but their jobs do not", "a running consumer closes them")
