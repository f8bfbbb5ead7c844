"""Rows of every kind, and every page of ours: for what must hold on all of them.

The pages come from the URL configuration, so one that is added later is looked at without anybody's doing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Now
from django.test import Client

from accounts.models import ApiToken, Role, User
from database.clock import SecondsFromNow
from duplicates.models import FolderPair, FolderSearch, Plan, PlanFile, PlanFolder, RuleSet, group_key
from jobs.health import CONSUMER_RESTARTED
from jobs.models import Job, WalMaintenanceJob, WalSize, WorkerHeartbeat
from libraries import picking, queueing
from libraries.models import LibraryFile, LibraryRoot, LibraryState, ScanError, ScanRequest, ScanSession
from logbook.models import write_event
from tests import factories
from tests.duplicates.plans import copies, digest, planned, rule_set
from tests.site.addresses_found import every_address
from tests.site.overviews import running_act
from tests.trash.trashed import carried_out
from trash.models import Act

#: Django's own pages and the API's, and what is for programs.
NOT_OURS = ("admin:", "api:")
#: Not in the URL configuration as pages of their own: what an address' query makes of a page.
MORE = (
    "/jobs/?status=failed",
    "/jobs/?kind=thumbnail",
    "/duplicates/?media=image",
    "/duplicates/?media=video",
    "/plans/{plan_id}/?by=folder",
    "/logbook/?item_type=jobs",
    "/trash/history/?library={library_id}&path={path}",
    "/libraries/add/picked/?folder={folder}",
    "/plans/{plan_in_the_making}/",
    "/plans/{plan_that_failed}/",
    "/acts/{living_act}/",
)


@dataclass(frozen=True)
class Site:
    """Whoever may see everything, and keys of rows for the parameters of addresses."""

    admin: User
    keys: dict[str, str]


def empty_site() -> Site:
    return Site(factories.user("ada", Role.ADMIN), {})


def furnished_site(each: int = 2) -> Site:
    """So many of each kind of row, in each state it can be in."""
    site = empty_site()
    libraries = add_rows(site.admin, range(each))
    _scan_that_runs(libraries[0])
    running_act(Plan.objects.create(status="ready"), done_count=4, bytes_done=400, busy_seconds=10)
    return Site(site.admin, {name: str(key) for name, key in _keys(site.admin, libraries[0]).items()})


def add_rows(admin: User, numbers: range) -> list[LibraryRoot]:
    """Rows of every kind for each of the numbers; others can be added later."""
    libraries = [_library(number) for number in numbers]
    _copies(libraries, numbers)
    _backups(numbers)
    for _ in numbers:
        carried_out(planned("hardlink"), days_ago=3)
    planned("trash")
    _jobs(numbers)
    _unmade_plans(numbers)
    _folder_pairs(libraries, numbers)
    _upkeep(numbers)
    for number in numbers:
        rule_set(f"tidy-{number}")
        factories.user(f"otto-{number}", Role.OPERATOR)
        ApiToken.issue(admin, f"script-{number}", Role.VIEWER)
    for library in libraries:
        _failed_scan(library)
        queueing.submit(library.pk, ScanRequest.Priority.HIGH, actor=admin.username)
    return libraries


def _keys(admin: User, library: LibraryRoot) -> dict[str, Any]:
    ready = Plan.objects.filter(status="ready").latest("pk")
    return {
        "job_id": Job.objects.filter(status="failed").earliest("created_at").pk,
        "library_id": library.pk,
        "group_key": group_key("blake3", digest(1)),
        "form": "csv",
        "plan_id": ready.pk,
        "item_id": PlanFile.objects.filter(plan=ready).earliest("pk").pk,
        "file_id": LibraryFile.objects.earliest("pk").pk,
        "folder_id": PlanFolder.objects.filter(plan=ready).earliest("pk").pk,
        "rule_set_id": RuleSet.objects.earliest("pk").pk,
        "pair_id": FolderPair.objects.earliest("pk").pk,
        "act_id": Act.objects.earliest("pk").pk,
        "pk": admin.pk,
        "request_id": ScanRequest.objects.earliest("pk").pk,
        "path": "old/copies/1/beach.jpg",
        "folder": picking.roots()[0].hex(),
        "plan_in_the_making": Plan.objects.filter(job__status="pending").earliest("pk").pk,
        "plan_that_failed": Plan.objects.filter(job__status="failed").earliest("pk").pk,
        "living_act": Act.objects.filter(status="running").earliest("pk").pk,
    }


def our_pages(site: Site) -> list[str]:
    """The addresses of all whole pages: what answers with a document when it is looked at."""
    return list(dict.fromkeys(named_pages(site).values()))


def named_pages(site: Site) -> dict[str, str]:
    """The same by their names, which don't change with the rows: a view's, or what was written in `MORE`."""
    client = Client()
    client.force_login(site.admin)
    found = {each.name: each.path for each in every_address(site.keys) if not each.name.startswith(NOT_OURS)}
    more = {address: _filled(address, site.keys) for address in MORE}
    pages = {name: path for name, path in {**found, **more}.items() if path and _is_page(client, path)}
    return {"no such page": "/no-such-page/", **pages}


def _filled(address: str, keys: dict[str, str]) -> str:
    """Empty where it asks for rows that there are not."""
    try:
        return address.format(**keys)
    except KeyError:
        return ""


def _is_page(client: Client, path: str) -> bool:
    answer = client.get(path)
    is_html = answer.status_code == 200 and answer.get("Content-Type", "").startswith("text/html")
    return is_html and answer.content.lstrip().lower().startswith(b"<!doctype html>")


# --- Rows -------------------------------------------------------------------------------------------------
def _library(number: int) -> LibraryRoot:
    made = factories.library(f"photos-{number}")
    state = "present" if number % 2 == 0 else "absent"
    LibraryState.objects.create(
        library=made, mount=state, checked_at=SecondsFromNow(-60), is_writable=True, filesystems={"": "uuid-1"}
    )
    LibraryRoot.objects.filter(pk=made.pk).update(last_scanned_at=SecondsFromNow(-7200))
    return made


def _copies(libraries: list[LibraryRoot], numbers: range) -> None:
    """Groups of three copies, in one library and over two of them."""
    for number in numbers:
        for content in range(4 * number + 1, 4 * number + 5):
            paths = (f"{content}/beach.jpg", f"old/{content}/beach.jpg")
            copies(libraries[content % len(libraries)], content, *paths, size=content * 1_234_567)
            copies(libraries[0], content, f"old/copies/{content}/beach.jpg", size=content * 1_234_567)
        factories.library_file(f"missing-{number}.jpg", libraries[0], is_missing=True)


def _backups(numbers: range) -> None:
    for number in numbers:
        made = factories.library(f"photos-{1_000 + number}", role=LibraryRoot.Role.BACKUP)
        LibraryState.objects.create(library=made, mount="present", checked_at=SecondsFromNow(-60))
        copies(made, 4 * number + 1, f"old/{number}/beach.jpg", size=(4 * number + 1) * 1_234_567)


def _jobs(numbers: range) -> None:
    for _ in numbers:
        for status in ("completed", "cancelled", "retryable"):
            factories.finished_job("thumbnail", status)
        factories.running_job("thumbnail", total_items=100, processed_items=40)
        failed = factories.finished_job("thumbnail", "failed")
        Job.objects.filter(pk=failed.pk).update(error_message="It broke.")


def _unmade_plans(numbers: range) -> None:
    for _ in numbers:
        Plan.objects.create(status="discarded")
        Plan.objects.create(status="planning", job=factories.pending_job("delete", dry_run=True))
        failed = factories.finished_job("delete", "failed", dry_run=True)
        Job.objects.filter(pk=failed.pk).update(error_message="/locked/a.jpg")
        Plan.objects.create(status="planning", job=failed)


def _folder_pairs(libraries: list[LibraryRoot], numbers: range) -> None:
    search = FolderSearch.objects.order_by("pk").first() or FolderSearch.objects.create()
    FolderPair.objects.bulk_create(
        FolderPair(
            search=search, left_library=libraries[0], left_folder=f"{number}", right_library=libraries[0],
            right_folder=f"old/{number}", shared_files=3, shared_bytes=3_000_000, left_files=4, left_bytes=4_000_000,
            left_only_files=1, right_files=3, right_bytes=3_000_000, right_only_files=0,
        )
        for number in numbers
    )  # fmt: skip


def _upkeep(numbers: range) -> None:
    for number in numbers:
        WorkerHeartbeat.objects.create(worker_id=f"nas:{number}", hostname="nas")
        WalMaintenanceJob.objects.create(requested_mode="passive", status="completed", finished_at=Now())
        WalSize.objects.create(bytes_size=number * 1_000_000, seen_at=SecondsFromNow(-60 * number - 1))
        write_event("supervisor", f"nas:{number}", CONSUMER_RESTARTED, actor="supervisor")


def _failed_scan(library: LibraryRoot) -> None:
    session = ScanSession.objects.create(
        library=library, status="failed", started_at=SecondsFromNow(-900), finished_at=SecondsFromNow(-800)
    )
    ScanError.objects.create(session=session, library=library, relative_path="locked/a.jpg", reason="permission denied")


def _scan_that_runs(library: LibraryRoot) -> None:
    """Of those that wait, the first."""
    lease = Job.objects.filter(kind="scan").claim("nas:7")
    assert lease is not None
    ScanSession.objects.create(
        library=library, job_id=lease.row.pk, started_at=SecondsFromNow(-100), updated_at=Now(), files_seen=1234
    )
