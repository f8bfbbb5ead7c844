"""Library roots, the files below them, and what scans and hash jobs know of them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length, Now

from jobs.models import Job, legal, new_job_id
from libraries.excluding import DEFAULT_PATTERNS

models.BinaryField.register_lookup(Length)


class LibraryQuerySet(models.QuerySet["LibraryRoot"]):
    def kept(self) -> LibraryQuerySet:
        """Every library but those whose rows are on their way out."""
        return self.filter(removing_at__isnull=True)


class LibraryRoot(models.Model):
    """A folder whose files are looked after. Beside the protocol's columns all of it is policy's to write."""

    class Role(models.TextChoices):
        NORMAL = "normal"
        #: Nothing in it is ever acted on.
        PROTECTED = "protected"
        #: Its copies never count as reclaimable.
        BACKUP = "backup"

    name = models.CharField(max_length=255, unique=True)
    root_path = models.CharField(max_length=2048, unique=True)
    role = models.CharField(max_length=16, choices=Role.choices, db_default=Role.NORMAL)
    is_paused = models.BooleanField(db_default=False)
    #: Patterns of what is left out, one a line (`libraries.excluding`).
    exclude_patterns = models.TextField(db_default="\n".join(DEFAULT_PATTERNS), blank=True)
    #: Folders below the root in which nothing is ever acted on, one a line.
    protected_folders = models.TextField(db_default="", blank=True)
    #: Nobody writes into it slowly: plans may take files however lately they changed.
    takes_young = models.BooleanField(db_default=False)
    min_size_bytes = models.BigIntegerField(db_default=0)
    #: Read also what can have no twin.
    hash_everything = models.BooleanField(db_default=False)
    #: The I/O budget of scans and hash jobs; 0 is no limit.
    read_bytes_per_second = models.BigIntegerField(db_default=0)
    #: The schedule is an interval or a cron expression, never both; neither is no schedule.
    scan_interval_minutes = models.IntegerField(db_default=0)
    scan_cron = models.CharField(max_length=255, db_default="", blank=True)
    next_scan_at = models.DateTimeField(null=True, blank=True)
    #: Set when somebody removes the library: its rows then go in batches, and the row itself last.
    removing_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    last_scanned_at = models.DateTimeField(null=True, blank=True)

    objects = LibraryQuerySet.as_manager()

    class Meta:
        db_table = "library_roots"
        ordering = ["name"]
        constraints = [legal("role", ["normal", "protected", "backup"], "ck_library_roots_role")]

    def __str__(self) -> str:
        return self.name


class LibraryState(models.Model):
    """What executors last found of a library; pages show this and never touch its disk."""

    class Mount(models.TextChoices):
        UNKNOWN = "unknown"
        PRESENT = "present"
        #: The folder is not there or can't be read.
        ABSENT = "absent"
        #: It is there but holds nothing, where files were before.
        EMPTY = "empty"
        #: Another filesystem than the remembered one is there, or one inside it is not mounted.
        DIFFERENT = "different"

    library = models.OneToOneField(LibraryRoot, on_delete=models.CASCADE, primary_key=True, related_name="state")
    mount = models.CharField(max_length=16, choices=Mount.choices, db_default=Mount.UNKNOWN)
    mount_note = models.TextField(db_default="", blank=True)
    #: Folder below the root ("" is the root) where a filesystem begins → its name (`libraries.mounts`). One in a folder
    #: that is left out stands here only while the index has files on it.
    filesystems = models.JSONField(db_default=models.Value({}, models.JSONField()))
    is_writable = models.BooleanField(null=True, blank=True)
    #: What stands in the index.
    file_count = models.BigIntegerField(db_default=0)
    total_bytes = models.BigIntegerField(db_default=0)
    missing_count = models.BigIntegerField(db_default=0)
    error_count = models.BigIntegerField(db_default=0)
    #: What the last complete walk saw: the next one measures itself by it.
    walked_files = models.BigIntegerField(db_default=0)
    walked_bytes = models.BigIntegerField(db_default=0)
    #: How many files a complete walk did not find, when they are too many to be believed without asking a person.
    gone_count = models.BigIntegerField(db_default=0)
    checked_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "library_states"
        constraints = [
            legal("mount", ["unknown", "present", "absent", "empty", "different"], "ck_library_states_mount")
        ]

    def __str__(self) -> str:
        return f"state of library {self.pk}"


class ScanSession(models.Model):
    """One walk over the libraries.

    running ──▶ succeeded | failed
    """

    class Status(models.TextChoices):
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    MOVES = {"running": frozenset({"succeeded", "failed"})}

    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.RUNNING)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)
    error_message = models.TextField(null=True, blank=True)  # noqa: DJ001
    files_seen = models.BigIntegerField(db_default=0)
    directories_seen = models.BigIntegerField(db_default=0)
    bytes_seen = models.BigIntegerField(db_default=0)
    error_count = models.BigIntegerField(db_default=0)
    #: Ours: whose walk it was, and what it changed.
    library = models.ForeignKey(
        LibraryRoot, on_delete=models.SET_NULL, null=True, blank=True, related_name="sessions", db_index=False
    )
    job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False)
    added_count = models.BigIntegerField(db_default=0)
    changed_count = models.BigIntegerField(db_default=0)
    removed_count = models.BigIntegerField(db_default=0)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "scan_sessions"
        indexes = [
            # A library's scans, newest first; a job's sessions.
            models.Index(fields=["library", "-id"], name="ix_scan_sessions_library"),
            models.Index(fields=["job"], name="ix_scan_sessions_job"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["running", "succeeded", "failed"]), name="ck_scan_sessions_status"
            ),
        ]

    def __str__(self) -> str:
        return f"scan session {self.pk}"


class LibraryFile(models.Model):
    """A file as the last scan saw it. Unique by library and path (`libraries.objects`)."""

    class HashAlgorithm(models.TextChoices):
        BLAKE3 = "blake3"
        SHA256 = "sha256"

    library = models.ForeignKey(LibraryRoot, on_delete=models.CASCADE, related_name="files", db_index=False)
    relative_path = models.CharField(max_length=4096)
    size_bytes = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    inode = models.BigIntegerField(null=True, blank=True)
    device = models.BigIntegerField(null=True, blank=True)
    #: Ours: a changed ctime re-reads a file whose size and mtime say nothing; links tell hard links apart.
    ctime_ns = models.BigIntegerField(null=True, blank=True)
    nlink = models.BigIntegerField(null=True, blank=True)
    #: Ours: BLAKE3 of the beginning, the middle and the end of a large file, whatever the system's algorithm.
    sample_hash = models.BinaryField(max_length=32, null=True, blank=True)
    is_missing = models.BooleanField(db_default=False)
    needs_hash = models.BooleanField(db_default=True)
    last_seen_scan = models.ForeignKey(
        ScanSession, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    hash_algorithm = models.CharField(max_length=16, choices=HashAlgorithm.choices, null=True, blank=True)  # noqa: DJ001
    content_hash = models.BinaryField(max_length=32, null=True, blank=True)
    hashed_size_bytes = models.BigIntegerField(null=True, blank=True)
    hashed_mtime_ns = models.BigIntegerField(null=True, blank=True)
    hashed_at = models.DateTimeField(null=True, blank=True)
    hash_error_count = models.IntegerField(db_default=0)
    hash_last_error = models.TextField(null=True, blank=True)  # noqa: DJ001
    hash_last_error_at = models.DateTimeField(null=True, blank=True)
    hash_retry_after = models.DateTimeField(null=True, blank=True)
    hash_claim_token = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    hash_claimed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "library_files"
        constraints = [
            models.CheckConstraint(
                condition=Q(hash_algorithm__isnull=True) | Q(hash_algorithm__in=["blake3", "sha256"]),
                name="ck_library_files_hash_algorithm",
            ),
            models.CheckConstraint(
                condition=Q(content_hash__isnull=True) | Q(content_hash__length=32),
                name="ck_library_files_content_hash",
            ),
        ]
        indexes = [
            # Members of a group, and the groups themselves, in the order of their files' ids. With all that groups are
            # counted from: the rows are scattered over the whole table, and would have to be looked up one by one.
            models.Index(
                fields=[
                    "hash_algorithm",
                    "content_hash",
                    "id",
                    "library_id",
                    "size_bytes",
                    "mtime_ns",
                    "nlink",
                    "is_missing",
                    "needs_hash",
                ],
                name="ix_library_files_dedup_group",
                # `content_hash = x` implies this to both planners, however else a query is written.
                condition=Q(content_hash__isnull=False),
            ),
            # Which large files can have a twin: same size, then same sample. Small ones are hashed as they are walked
            # and never looked up by size, so they are left out: an index on them would cost every first scan.
            models.Index(
                fields=["size_bytes", "sample_hash"],
                name="ix_library_files_size",
                condition=Q(size_bytes__gt=65536, is_missing=False),
            ),
            # What hash jobs look through.
            models.Index(
                fields=["size_bytes", "id"],
                name="ix_library_files_unhashed",
                condition=Q(needs_hash=True, is_missing=False),
            ),
            # The files of a library that could not be hashed, page by page.
            models.Index(fields=["library", "id"], name="ix_library_files_failed", condition=Q(hash_error_count__gt=0)),
            # A holder's batch.
            models.Index(
                fields=["hash_claim_token"],
                name="ix_library_files_claimed",
                condition=Q(hash_claim_token__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.relative_path


class ScanError(models.Model):
    """A path that the last scan of its library could not read. A folder's covers everything below it."""

    library = models.ForeignKey(LibraryRoot, on_delete=models.CASCADE, related_name="scan_errors", db_index=False)
    session = models.ForeignKey(ScanSession, on_delete=models.CASCADE, related_name="errors", db_index=False)
    relative_path = models.CharField(max_length=4096)
    is_folder = models.BooleanField(db_default=False)
    reason = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "scan_errors"
        indexes = [
            # A library's errors, page by page.
            models.Index(fields=["library", "id"], name="ix_scan_errors_library"),
            models.Index(fields=["session"], name="ix_scan_errors_session"),
        ]

    def __str__(self) -> str:
        return self.relative_path


class ScanRequest(models.Model):
    """A wish to have a library scanned; at most one a library waits or runs.

        pending ──▶ running ──▶ completed | failed
           │  ▲        │
           │  └─lost───┤
           └─cancel────┴──▶ cancelled

    It moves with its job, by a trigger (`libraries.objects`), so whoever carries the job out moves it.
    """

    class Priority(models.IntegerChoices):
        NORMAL = 0
        HIGH = 1

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    ACTIVE = (Status.PENDING, Status.RUNNING)
    #: `running → pending` is a lost lease: the request keeps its place, by its priority and the time it was asked for.
    MOVES = {
        "pending": frozenset({"running", "cancelled", "failed"}),
        "running": frozenset({"completed", "failed", "cancelled", "pending"}),
    }

    id = models.CharField(max_length=36, primary_key=True, default=new_job_id)
    library = models.ForeignKey(LibraryRoot, on_delete=models.CASCADE, related_name="scan_requests", db_index=False)
    priority = models.SmallIntegerField(choices=Priority.choices, db_default=Priority.NORMAL)
    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.PENDING)
    requested_by = models.CharField(max_length=150, db_default="", blank=True)
    #: Somebody looked at how many files are gone and said that it is right.
    accept_missing = models.BooleanField(db_default=False)
    #: The one job that carries it out, from the moment it has the slot.
    job = models.OneToOneField(Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="scan_request")
    attempts = models.IntegerField(db_default=0)
    scanned_paths = models.BigIntegerField(db_default=0)
    total_paths = models.BigIntegerField(db_default=0)
    added_count = models.BigIntegerField(db_default=0)
    changed_count = models.BigIntegerField(db_default=0)
    removed_count = models.BigIntegerField(db_default=0)
    failed_count = models.BigIntegerField(db_default=0)
    error = models.TextField(null=True, blank=True)  # noqa: DJ001
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "scan_requests"
        constraints = [
            legal("status", ["pending", "running", "completed", "failed", "cancelled"], "ck_scan_requests_status"),
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=1), name="ck_scan_requests_priority"),
            models.UniqueConstraint(
                fields=["library"], condition=Q(status__in=["pending", "running"]), name="ux_scan_requests_active"
            ),
        ]
        indexes = [
            # The queue in its order.
            models.Index(
                fields=["-priority", "created_at", "id"],
                name="ix_scan_requests_pending",
                condition=Q(status="pending"),
            ),
            # The history, newest first, and what is old enough to be pruned.
            models.Index(fields=["-completed_at", "-id"], name="ix_scan_requests_history"),
            models.Index(fields=["library", "-created_at"], name="ix_scan_requests_library"),
        ]

    def __str__(self) -> str:
        return f"scan request {self.pk}"


class HashStateQuerySet(models.QuerySet["HashState"]):
    def ask(self) -> None:
        """Let the next free slot go to hashing: something may have become worth reading."""
        if not self.filter(pk=1).update(is_due=True, updated_at=Now()):
            self.create(pk=1, is_due=True)


class HashState(models.Model):
    """The one row (id 1) that says which digest the system uses and whether anything waits to be hashed.

    The row may be missing: then every column has its default.
    """

    algorithm = models.CharField(max_length=16, choices=LibraryFile.HashAlgorithm.choices, db_default="blake3")
    #: The algorithm to which everything is being re-hashed; the switch happens when that is complete.
    switching_to = models.CharField(  # noqa: DJ001
        max_length=16, choices=LibraryFile.HashAlgorithm.choices, null=True, blank=True
    )
    is_due = models.BooleanField(db_default=False)
    is_paused = models.BooleanField(db_default=False)
    #: When the first file that could not be read may be tried again.
    retry_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(db_default=Now())

    objects = HashStateQuerySet.as_manager()

    class Meta:
        db_table = "hash_states"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="ck_hash_states_one_row"),
            legal("algorithm", ["blake3", "sha256"], "ck_hash_states_algorithm"),
        ]

    def __str__(self) -> str:
        return self.algorithm


class HashRun(models.Model):
    """How far a hash job is, in files and bytes."""

    class Phase(models.TextChoices):
        SAMPLING = "sampling"
        HASHING = "hashing"
        REHASHING = "rehashing"

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="hash_run")
    phase = models.CharField(max_length=16, choices=Phase.choices, db_default=Phase.SAMPLING)
    files_done = models.BigIntegerField(db_default=0)
    files_total = models.BigIntegerField(db_default=0)
    bytes_done = models.BigIntegerField(db_default=0)
    bytes_total = models.BigIntegerField(db_default=0)
    #: The share, in thousandths, that was shown when the totals were last measured: it is not taken back.
    share_held = models.SmallIntegerField(db_default=0)
    #: Time spent reading, over all tries: bytes a second are measured by it.
    busy_seconds = models.FloatField(db_default=0.0)
    started_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "hash_runs"
        constraints = [legal("phase", ["sampling", "hashing", "rehashing"], "ck_hash_runs_phase")]

    def __str__(self) -> str:
        return f"hash run {self.pk}"


class Rehash(models.Model):
    """A file's digest by the algorithm that the system is switching to."""

    file = models.OneToOneField(LibraryFile, on_delete=models.CASCADE, primary_key=True, related_name="+")
    content_hash = models.BinaryField(max_length=32)
    size_bytes = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()

    class Meta:
        db_table = "rehashes"

    def __str__(self) -> str:
        return f"rehash of {self.pk}"
