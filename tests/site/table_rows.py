"""A row for every table that Django's admin shows, as full of content as rows get, and another one for each number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.db.models import Model

from accounts.models import ApiToken, Role, User
from dedupfs_site.models import DailySample
from duplicates import summary
from duplicates.models import (
    DuplicateGroup,
    FolderPair,
    FolderSearch,
    GroupChange,
    IgnoredGroup,
    Plan,
    PlanFile,
    PlanFolder,
    RuleSet,
    Summary,
)
from jobs.models import IoRateLimit, Job, WalMaintenanceJob, WalSize, WorkerHeartbeat
from libraries.models import (
    HashRun,
    HashState,
    LibraryFile,
    LibraryRoot,
    LibraryState,
    Rehash,
    ScanError,
    ScanRequest,
    ScanSession,
)
from logbook.models import LogbookEvent, LogbookItem, write_event
from tests import factories
from thumbnails.models import Thumbnail, ThumbnailCleanupJob
from trash.models import Act, RemovedFolder, Switches, TrashItem

#: These have one row and never another.
ALONE = {HashState, Summary, Switches}


def digest(number: int) -> dict[str, Any]:
    return {"hash_algorithm": "blake3", "content_hash": (number + 1).to_bytes(32, "big")}


def group_name(number: int) -> str:
    return f"blake3:{digest(number)['content_hash'].hex()}"


def library(number: int) -> LibraryRoot:
    return LibraryRoot.objects.get_or_create(name=f"photos-{number}", root_path=f"/libraries/photos-{number}")[0]


def file(number: int, path: str = "sub/ä") -> LibraryFile:
    values = {"size_bytes": 1, "mtime_ns": 1, "needs_hash": False, **digest(number)}
    found, _ = LibraryFile.objects.get_or_create(
        library=library(number), relative_path=f"{path}-{number}.jpg", defaults=values
    )
    return found


def job(number: int) -> Job:
    return factories.finished_job("thumbnail", "failed", total_items=10, payload={"number": number})


def scan_request(number: int) -> ScanRequest:
    return ScanRequest.objects.create(
        library=library(number), job=job(number), status="failed", error="<b>", requested_by="otto"
    )


def group(number: int) -> DuplicateGroup:
    file(number)
    file(number, "twin")
    summary.bring_up_to_date()
    return DuplicateGroup.objects.get(**digest(number))


def the_summary(number: int) -> Summary:
    group(number)
    return Summary.objects.get()


def session(number: int) -> ScanSession:
    return ScanSession.objects.create(library=library(number), job=job(number), status="running", files_seen=1234)


def plan(number: int) -> Plan:
    return Plan.objects.create(job=job(number), rule_set_name="<b>", created_by="otto", freed_bytes=1_234_567)


def plan_file(number: int, of: Plan | None = None) -> PlanFile:
    values: dict[str, Any] = {"library": library(number), "size_bytes": 1, "mtime_ns": 1, **digest(number)}
    of = of or plan(number)
    kept = PlanFile.objects.create(plan=of, role="keep", file=file(number), relative_path="<b>", **values)
    twin = file(number, "twin")
    return PlanFile.objects.create(
        plan=of, role="remove", action="trash", keeper=kept, file=twin, relative_path="old/<b>", **values
    )


def act(number: int) -> Act:
    made = plan(number)
    Plan.objects.filter(pk=made.pk).update(status="ready")
    Plan.objects.filter(pk=made.pk).update(status="authorised")
    return Act.objects.create(plan=made, job=job(number), authorised_by="anna", space={"uuid": [1, 2]})


def trash_item(number: int) -> TrashItem:
    made = plan(number)
    row = plan_file(number, made)
    by = Act.objects.create(plan=made, job=job(number), authorised_by="anna")
    return TrashItem.objects.create(
        act=by, plan_file=row, status="skipped", reason_code="PROTECTED", library=row.library, path_key=b"k" * 16,
        left_by=by,
    )  # fmt: skip


def folder_pair(number: int) -> FolderPair:
    return FolderPair.objects.create(
        search=FolderSearch.objects.create(), left_library=library(number), left_folder="<b>",
        right_library=library(number + 100), right_folder="old", shared_files=1, shared_bytes=1, left_files=1,
        left_bytes=1, left_only_files=0, right_files=1, right_bytes=1, right_only_files=0,
    )  # fmt: skip


def thumbnail(number: int) -> Thumbnail:
    made = factories.pending_thumbnail(f"key-{number}", file(number), group_key=group_name(number))
    lease = Thumbnail.objects.filter(pk=made.pk).claim("nas:7")
    assert lease is not None
    lease.finish("failed", code="UNREADABLE")
    return made


def token(number: int) -> ApiToken:
    return ApiToken.issue(factories.user(f"olaf-{number}", Role.OPERATOR), "script", Role.VIEWER)[0]


def item(number: int) -> LogbookItem:
    return LogbookItem.objects.get(item_type="jobs", subject_id=job(number).pk)


def event(number: int) -> LogbookEvent:
    return write_event("library_roots", str(library(number).pk), "changed", actor="anna", title="<b>", why="<b>")


def access(model: type[Model], number: int, **more: Any) -> Model:
    values = {"user_agent": "x", "ip_address": "192.0.2.1", "http_accept": "*/*", "path_info": "/account/login/"}
    return model._default_manager.create(username=f"somebody-{number}", **values, **more)


#: What makes the row with a number, for each table.
MAKERS: dict[type[Model], Callable[[int], Model]] = {
    User: lambda number: factories.user(f"olaf-{number}", Role.OPERATOR),
    ApiToken: token,
    DailySample: lambda number: DailySample.objects.create(day=date(2026, 1, 31) + timedelta(days=number)),
    Job: lambda number: scan_request(number).job,  # type: ignore[dict-item, return-value]
    WalMaintenanceJob: lambda number: WalMaintenanceJob.objects.create(status="completed", reason=f"<b> {number}"),
    WalSize: lambda number: WalSize.objects.create(bytes_size=number),
    IoRateLimit: lambda number: IoRateLimit.objects.create(bucket_key=f"library:{number}"),
    WorkerHeartbeat: lambda number: WorkerHeartbeat.objects.create(worker_id=f"box:{number}", pid=number),
    LibraryRoot: library,
    LibraryState: lambda number: LibraryState.objects.create(library=library(number), filesystems={"": "uuid:<b>"}),
    LibraryFile: file,
    ScanSession: session,
    ScanRequest: scan_request,
    ScanError: lambda number: ScanError.objects.create(
        library=library(number), session=session(number), relative_path="<b>", reason="EIO: broken"
    ),
    HashState: lambda _: HashState.objects.create(id=1),
    HashRun: lambda number: HashRun.objects.create(job=job(number)),
    Rehash: lambda number: Rehash.objects.create(
        file=file(number), content_hash=b"\x0f" * 32, size_bytes=1, mtime_ns=1
    ),
    DuplicateGroup: group,
    GroupChange: lambda number: GroupChange.objects.create(file_id=file(number).pk, **digest(number)),
    Summary: the_summary,
    IgnoredGroup: lambda number: IgnoredGroup.objects.create(note="<b>", ignored_by="otto", **digest(number)),
    RuleSet: lambda number: RuleSet.objects.create(name=f"<b> {number}", rules=[{"kind": "keep_oldest"}]),
    Plan: plan,
    PlanFile: plan_file,
    PlanFolder: lambda number: PlanFolder.objects.create(plan=plan(number), library=library(number), folder="<b>"),
    FolderSearch: lambda _: FolderSearch.objects.create(requested_by="otto"),
    FolderPair: folder_pair,
    Thumbnail: thumbnail,
    ThumbnailCleanupJob: lambda number: ThumbnailCleanupJob.objects.create(group_key=group_name(number)),
    LogbookItem: item,
    LogbookEvent: event,
    Act: act,
    TrashItem: trash_item,
    RemovedFolder: lambda number: RemovedFolder.objects.create(
        act=act(number), library=library(number), folder="old/<b>", mode=0o755, uid=0, gid=0, mtime_ns=1
    ),
    Switches: lambda _: Switches.objects.create(id=1),
    AccessAttempt: lambda number: access(AccessAttempt, number, get_data="", post_data="", failures_since_start=number),
    AccessLog: lambda number: access(AccessLog, number),
    AccessFailureLog: lambda number: access(AccessFailureLog, number),
}
