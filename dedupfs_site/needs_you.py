"""What needs a person: each kind by one query at the most, over an index or over few rows, however much there is.

Libraries and acts were read before by whoever asks. The worst comes first; of a kind only a few are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from duplicates.models import Plan
from frame.templatetags.human import ago_words, count_words, size_words
from jobs.models import Job, WalMaintenanceJob
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanRequest
from libraries.names import to_display
from libraries.showing import ShownLibrary
from thumbnails.models import Thumbnail
from trash import space
from trash.models import Act
from trash.showing import PAUSED, ShownAct

#: So many of each kind are named; then one line says that there are more.
NAMED = 4
#: Rows that are counted at the most where there may be any number.
MOST_COUNTED = 1_000
#: A scan whose time has passed for so long did not run: consumers look every few seconds.
LATE = timedelta(minutes=15)
#: One that waits for so long although nothing else runs, too.
WAITS_LONG = timedelta(hours=1)
#: What went wrong so often is not going to mend itself.
REPEATEDLY = 3
NAME_CHARACTERS = 60


@dataclass(frozen=True)
class Need:
    """One line: what it is about, why, and where to do something about it."""

    key: str
    #: `danger` or `attention`.
    state: str
    icon: str
    title: str
    note: str
    address: str
    link: str


@dataclass(frozen=True)
class Seen:
    """What was read for the page already."""

    libraries: Sequence[ShownLibrary]
    #: Those that live, and those that came to nothing.
    acts: Sequence[ShownAct]
    alive_count: int
    #: A scan or a hash job is at work: others wait for it.
    is_slot_taken: bool
    now: datetime


def read_needs(seen: Seen) -> list[Need]:
    kinds: tuple[Callable[[Seen], Iterator[Need]], ...] = (
        _no_consumer, _disks, _ended_acts, _last_copies, _gone_files, _failed_scans, _failed_hashing, _late_scans,
        _plans, _paused_acts, _unreadable, _thumbnails, _checkpoints,
    )  # fmt: skip
    # Most kinds are about libraries, which have one list.
    listed = {_plans: "plans:list", _ended_acts: "plans:list", _paused_acts: "trash:list"}
    found = [need for kind in kinds for need in _few(list(kind(seen)), listed.get(kind, "libraries:list"))]
    return sorted(found, key=lambda need: need.state != "danger")


def _few(needs: list[Need], page: str) -> list[Need]:
    """Of many of a kind the first, and how many more there are: with the way to the page that lists them all."""
    if len(needs) <= NAMED + 1:
        return needs
    last = needs[NAMED]
    rest = len(needs) - NAMED
    words = ngettext("%(count)d more like this", "%(count)d more like this", rest) % {"count": rest}
    return [*needs[:NAMED], Need(f"more-{last.key}", last.state, last.icon, words, "", reverse(page), _("Show all"))]


# --- The system -------------------------------------------------------------------------------------------
def _no_consumer(seen: Seen) -> Iterator[Need]:
    if not seen.alive_count:
        note = _("Nothing is lost: what waits is carried out as soon as one runs. manage.py up starts everything.")
        title = _("No consumer is alive: background work waits")
        yield Need("no-consumer", "danger", "silent", title, note, reverse("jobs:workers"), _("Workers"))


def _thumbnails(_seen: Seen) -> Iterator[Need]:
    """A picture that is broken fails for ever; that is worth a look, not an alarm."""
    failed = Thumbnail.objects.filter(status=Thumbnail.Status.FAILED).order_by().values_list("error_count", flat=True)
    often = sum(count >= REPEATEDLY for count in failed[:MOST_COUNTED])
    if often:
        title = ngettext(
            "%(count)s thumbnail fails again and again", "%(count)s thumbnails fail again and again", often
        )
        note = _("Their files may be damaged, or of a kind that can't be drawn.")
        count = count_words(often) + ("+" if often >= MOST_COUNTED else "")
        yield _about_system("thumbnails", "thumbnail", title % {"count": count}, note)


def _checkpoints(_seen: Seen) -> Iterator[Need]:
    last = WalMaintenanceJob.objects.order_by("-id").values_list("status", "retry_count", "error_message").first()
    if last is None:
        return
    status, tries, message = last
    if status == WalMaintenanceJob.Status.FAILED or (status == "retryable" and tries >= REPEATEDLY):
        title = _("The write-ahead log can't be written back")
        yield _about_system("checkpoints", "maintenance", title, message or _("Checkpoints fail again and again."))


def _about_system(key: str, icon: str, title: str, note: str) -> Need:
    return Need(key, "attention", icon, title, note, reverse("maintenance:show"), _("Maintenance"))


# --- Libraries --------------------------------------------------------------------------------------------
def _disks(seen: Seen) -> Iterator[Need]:
    words = {
        LibraryState.Mount.ABSENT: _("%(name)s looks unmounted"),
        LibraryState.Mount.EMPTY: _("%(name)s is empty, and was not before"),
        LibraryState.Mount.DIFFERENT: _("%(name)s: another disk is there, or one inside is missing"),
    }
    safe = _("No file is called missing because of that.")
    for row in seen.libraries:
        if not row.is_sound:
            title = words[LibraryState.Mount(row.state.mount)]
            note = f"{to_display(row.state.mount_note)} {safe}" if row.state.mount_note else safe
            yield _about_library("disk", "danger", "absent", row.library, title, note)


def _gone_files(seen: Seen) -> Iterator[Need]:
    for row in seen.libraries:
        if row.state.gone_count:
            title = ngettext(
                "%(name)s: is %(count)s file really gone?",
                "%(name)s: are %(count)s files really gone?",
                row.state.gone_count,
            )
            note = _("That is more than is usual at once, so none of them is called missing yet.")
            count = count_words(row.state.gone_count)
            yield _about_library("gone", "attention", "attention", row.library, title, note, _("Decide"), count=count)


def _failed_scans(seen: Seen) -> Iterator[Need]:
    """Libraries whose last scan failed; one whose disk is away is told of already."""
    ended = ScanRequest.objects.filter(library=OuterRef("pk"), status__in=("completed", "failed"))
    latest = LibraryRoot.objects.kept().values_list(Subquery(ended.order_by("-created_at").values("pk")[:1]))
    failed = ScanRequest.objects.filter(pk__in=latest, status=ScanRequest.Status.FAILED)
    errors = dict(failed.values_list("library_id", "error"))
    for row in seen.libraries:
        if row.is_sound and row.library.pk in errors:
            title = _("The scan of %(name)s failed")
            note = to_display(errors[row.library.pk] or "")
            yield _about_library("scan", "danger", "failed", row.library, title, note)


def _late_scans(seen: Seen) -> Iterator[Need]:
    """Scans that did not run, by schedule or asked for by a person."""
    for row in seen.libraries:
        note = "" if row.library.is_paused else _why_late(row, seen)
        if note:
            scheduled, wished = _("The scheduled scan of %(name)s did not run"), _("The scan of %(name)s has not begun")
            title = scheduled if row.schedule else wished
            yield _about_library("late", "attention", "pending", row.library, title, note)


def _why_late(row: ShownLibrary, seen: Seen) -> str:
    """Not asked for when it was due, asked for and not begun, or with no time to be asked at; empty where it is none
    of these."""
    wish, due = row.request, row.library.next_scan_at
    if row.schedule and due is not None and seen.now - due > LATE:
        return _("It was due %(when)s.") % {"when": ago_words(due, seen.now)}
    if wish is not None and not seen.is_slot_taken and seen.now - wish.request.created_at > WAITS_LONG:
        return _("It was asked for %(when)s.") % {"when": ago_words(wish.request.created_at, seen.now)}
    if row.schedule and due is None and seen.now - row.library.updated_at > LATE:
        return _("Its schedule can't be followed: look at it in the settings.")
    return ""


def _unreadable(seen: Seen) -> Iterator[Need]:
    failed = LibraryFile.objects.filter(hash_error_count__gt=0, is_missing=False).order_by("library_id", "id")
    unhashed = Counter(failed.values_list("library_id", flat=True)[:MOST_COUNTED])
    for row in seen.libraries:
        paths, files = row.state.error_count, unhashed[row.library.pk]
        if not paths and not files:
            continue
        title = ngettext(
            "%(name)s: %(count)s path can't be read", "%(name)s: %(count)s paths can't be read", paths + files
        )
        note = _("What can't be read is in no group: its copies are not found.")
        page = "libraries:errors" if paths else "libraries:failures"
        count = count_words(paths + files) + ("+" if files >= MOST_COUNTED else "")
        yield _about_library(
            "unreadable", "attention", "lost", row.library, title, note, _("Show them"), page, count=count
        )


def _about_library(
    kind: str,
    state: str,
    icon: str,
    library: LibraryRoot,
    title: str,
    note: str,
    link: str = "",
    page: str = "",
    **figures: str,
) -> Need:
    name = to_display(library.name)
    short = name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"
    address = reverse(page or "libraries:detail", args=[library.pk])
    words = title % {"name": short, **figures}
    return Need(f"{kind}-{library.pk}", state, icon, words, note, address, link or _("Details"))


def _failed_hashing(_seen: Seen) -> Iterator[Need]:
    last = Job.objects.filter(kind=Job.Kind.HASH).order_by("-created_at", "-id").defer("payload").first()
    if last is not None and last.status == Job.Status.FAILED:
        note = to_display(last.error_message or last.error_code or "")
        address = reverse("jobs:detail", args=[last.pk])
        yield Need("hashing", "danger", "hash", _("Hashing failed"), note, address, _("Details"))


# --- Plans and the trash ----------------------------------------------------------------------------------
def _plans(_seen: Seen) -> Iterator[Need]:
    """Those that wait for approval, and those that could not be made."""
    living = Plan.objects.filter(status__in=(Plan.Status.READY, Plan.Status.PLANNING)).select_related("job")
    shown = (
        "status",
        "job",
        "remove_count",
        "freed_bytes",
        "remove_bytes",
        "action",
        "job__status",
        "job__error_message",
    )
    for plan in living.only(*shown).order_by("-id")[:MOST_COUNTED]:
        if plan.status == Plan.Status.READY and plan.remove_count:
            title = _("Plan %(number)d waits for approval") % {"number": plan.pk}
            words = ngettext("%(count)s file, %(size)s", "%(count)s files, %(size)s", plan.remove_count)
            size = plan.freed_bytes or plan.remove_bytes
            note = words % {"count": count_words(plan.remove_count), "size": size_words(size)}
            yield _about_plan(plan.pk, "attention", title, note, _("Open"))
        elif plan.status == Plan.Status.PLANNING and plan.job is not None and plan.job.status == Job.Status.FAILED:
            title = _("Plan %(number)d could not be made") % {"number": plan.pk}
            yield _about_plan(plan.pk, "danger", title, to_display(plan.job.error_message or ""), _("Details"))


def _ended_acts(seen: Seen) -> Iterator[Need]:
    for shown in seen.acts:
        act = shown.act
        if act.status not in (Act.Status.FAILED, Act.Status.VOID):
            continue
        title = shown.heading
        if act.plan_id:
            title = _("Plan %(number)d: %(what)s") % {"number": act.plan_id, "what": title}
        address = reverse("acts:detail", args=[act.pk])
        yield Need(f"act-{act.pk}", "danger", "failed", title, to_display(act.note), address, _("Details"))


def _paused_acts(seen: Seen) -> Iterator[Need]:
    for shown in seen.acts:
        act = shown.act
        if shown.phase == PAUSED and act.plan_id:
            title = _("Plan %(number)d is paused") % {"number": act.plan_id}
            words = ngettext(
                "%(done)s of %(count)s file is done", "%(done)s of %(count)s files are done", act.file_count
            )
            note = words % {"done": count_words(shown.handled), "count": count_words(act.file_count)}
            address = reverse("acts:detail", args=[act.pk])
            yield Need(f"paused-{act.pk}", "attention", "idle", title, note, address, _("Open"))


def _last_copies(_seen: Seen) -> Iterator[Need]:
    last = space.last_copies()
    if last.count:
        title = ngettext(
            "The trash holds the last copy of %(count)s file",
            "The trash holds the last copy of %(count)s files",
            last.count,
        ) % {"count": count_words(last.count) if last.is_exact else f"{count_words(last.count)}+"}
        note = _("No other copy of them is known. Put them back: a trash is no place to keep them.")
        address = f"{reverse('trash:list')}?last=1"
        yield Need("last-copies", "danger", "delete", title, note, address, _("Show them"))


def _about_plan(number: int, state: str, title: str, note: str, link: str) -> Need:
    return Need(f"plan-{number}", state, "plans", title, note, reverse("plans:detail", args=[number]), link)
