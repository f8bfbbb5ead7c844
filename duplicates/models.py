"""Groups of equal files, the rules that say what stays, and the plans they make."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length, Now

from database.fields import PlainAutoField
from jobs.lease import LeasedModel, LeasedQuerySet, LeaseRules
from jobs.models import Job, legal
from libraries.models import LibraryFile, LibraryRoot

models.BinaryField.register_lookup(Length)


def group_key(algorithm: str, digest: bytes | memoryview) -> str:
    return f"{algorithm}:{bytes(digest).hex()}"


def _is_digest(field: str) -> Q:
    return Q(**{f"{field}__length": 32})


def _negative(field: str) -> models.GeneratedField:
    """Descending in an index that is walked upwards: then one comparison of row values finds where a page begins."""
    return models.GeneratedField(expression=-F(field), output_field=models.BigIntegerField(), db_persist=True)


# --- The summary --------------------------------------------------------------------------------------------
class DuplicateGroup(models.Model):
    """What several present files of equal content amount to. Kept by `duplicates.summary`; derived, never edited."""

    hash_algorithm = models.CharField(max_length=16)
    content_hash = models.BinaryField(max_length=32)
    #: Of one copy.
    size_bytes = models.BigIntegerField()
    file_count = models.BigIntegerField()
    total_size_bytes = models.BigIntegerField()
    #: Hard links of one file count once.
    inode_count = models.BigIntegerField()
    #: What would come back if one copy stayed (`duplicates.summary` says how it is reckoned).
    reclaimable_bytes = models.BigIntegerField()
    #: The latest change of any of its files.
    newest_ns = models.BigIntegerField()
    #: The file with the smallest id stands for the group.
    sample_file_id = models.BigIntegerField()
    #: The libraries it has copies in, as `,1,4,`; one may stand there twice.
    library_ids = models.TextField()
    spans_libraries = models.BooleanField()

    by_files = _negative("file_count")
    by_total = _negative("total_size_bytes")
    by_reclaimable = _negative("reclaimable_bytes")
    by_newest = _negative("newest_ns")
    by_size = _negative("size_bytes")

    class Meta:
        db_table = "duplicate_groups"
        constraints = [
            models.UniqueConstraint(fields=["hash_algorithm", "content_hash"], name="ux_duplicate_groups_digest"),
        ]  # none for the digest: it is the files', whose table has one
        # The protocol's order ends with the digest, the others with the file that stands for the group: no two have the
        # same, and a shorter index is cheaper to keep. (SQLite does not search an index for the id of the row itself.)
        indexes = [
            models.Index(
                fields=["by_files", "by_total", "hash_algorithm", "content_hash"], name="ix_duplicate_groups_files"
            ),
            models.Index(fields=["by_reclaimable", "sample_file_id"], name="ix_duplicate_groups_reclaim"),
            models.Index(fields=["by_newest", "sample_file_id"], name="ix_duplicate_groups_newest"),
            models.Index(fields=["by_size", "sample_file_id"], name="ix_duplicate_groups_size"),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def key(self) -> str:
        return group_key(self.hash_algorithm, self.content_hash)


class GroupChange(models.Model):
    """A file that changed since its group was counted, with the digest it had before: written by triggers, whoever
    changed it. The one it has now is read when the groups are counted.

    Never updated and not unique: a change that is not committed yet must not hide behind one that is being counted.
    """

    id = PlainAutoField(primary_key=True)
    file_id = models.BigIntegerField(null=True)
    hash_algorithm = models.CharField(max_length=16, null=True)  # noqa: DJ001
    content_hash = models.BinaryField(max_length=32, null=True)

    class Meta:
        db_table = "duplicate_changes"

    def __str__(self) -> str:
        return f"change of file {self.file_id}"


class Summary(models.Model):
    """One row: how far the groups are counted."""

    #: On SQLite ids only grow, so every file with a larger one is new since: inserting needs no note of each row.
    counted_file_id = models.BigIntegerField(db_default=0)
    #: Everything has to be counted anew, for example since a library's role changed.
    is_stale = models.BooleanField(db_default=True)
    #: How far that has come, in the order of the digests.
    recounted_algorithm = models.CharField(max_length=16, db_default="", blank=True)
    recounted_hash = models.BinaryField(max_length=32, null=True, blank=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duplicate_summary"
        verbose_name_plural = "summaries"
        constraints = [models.CheckConstraint(condition=Q(id=1), name="ck_duplicate_summary_one")]

    def __str__(self) -> str:
        return "summary of the groups"


class IgnoredGroup(models.Model):
    """A content that somebody said is no duplicate problem; whatever happens to its files, until it is undone."""

    hash_algorithm = models.CharField(max_length=16)
    content_hash = models.BinaryField(max_length=32)
    note = models.CharField(max_length=255, db_default="", blank=True)
    ignored_by = models.CharField(max_length=150)
    ignored_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "ignored_groups"
        constraints = [
            models.UniqueConstraint(fields=["hash_algorithm", "content_hash"], name="ux_ignored_groups_digest"),
            models.CheckConstraint(condition=_is_digest("content_hash"), name="ck_ignored_groups_content_hash"),
        ]

    def __str__(self) -> str:
        return group_key(self.hash_algorithm, self.content_hash)


# --- Deciding -----------------------------------------------------------------------------------------------
class Action(models.TextChoices):
    """What is done to a file that does not stay."""

    TRASH = "trash", "Move to trash"
    HARDLINK = "hardlink", "Replace by a hard link"
    DELETE = "delete", "Delete for good"


class RuleSet(models.Model):
    """Named rules, in the order they are asked (`duplicates.rules`)."""

    name = models.CharField(max_length=100, unique=True)
    #: A list of objects, each with its `kind` and what that kind needs.
    rules = models.JSONField(db_default=models.Value([], models.JSONField()))
    created_by = models.CharField(max_length=150, db_default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "rule_sets"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Plan(models.Model):
    """What would be done to which file, and why: made by a dry run, read by a person.

    planning ──▶ ready ◀──▶ authorised ──▶ done
        │          └──▶ discarded
        └──────────────────▲

    Once it is authorised nobody changes it (`trash.objects`); it is `ready` again where nothing came of that.
    """

    class Status(models.TextChoices):
        PLANNING = "planning"
        READY = "ready"
        AUTHORISED = "authorised"
        DONE = "done"
        DISCARDED = "discarded"

    MOVES = {
        "planning": frozenset({"ready", "discarded"}),
        "ready": frozenset({"authorised", "discarded"}),
        "authorised": frozenset({"ready", "done"}),
    }

    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.PLANNING)
    #: The dry run that makes it.
    job = models.OneToOneField(Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="plan")
    action = models.CharField(max_length=16, choices=Action.choices, db_default=Action.TRASH)
    #: The rules as they were then, with the name of their set; none where it was chosen by hand.
    rule_set_name = models.CharField(max_length=100, db_default="", blank=True)
    rules = models.JSONField(db_default=models.Value([], models.JSONField()))
    #: Which groups: those that match this query string, or exactly these keys where there are any.
    filter = models.TextField(db_default="", blank=True)
    group_keys = models.JSONField(db_default=models.Value([], models.JSONField()))
    #: By hand: file id → keep or remove. It goes before the rules.
    choices = models.JSONField(db_default=models.Value({}, models.JSONField()))
    #: Folders that are empty afterwards go as well.
    removes_empty_folders = models.BooleanField(db_default=False)
    #: Replace a file by a hard link also where owner, mode or extended attributes differ: its own are lost then.
    links_despite_metadata = models.BooleanField(db_default=False)
    created_by = models.CharField(max_length=150, db_default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    #: What it amounts to, less what a person took out.
    group_count = models.BigIntegerField(db_default=0)
    keep_count = models.BigIntegerField(db_default=0)
    remove_count = models.BigIntegerField(db_default=0)
    remove_bytes = models.BigIntegerField(db_default=0)
    #: What would really come back: a hard link of a file that stays frees nothing.
    freed_bytes = models.BigIntegerField(db_default=0)
    #: Groups that matched and of which every file stays, and files that were left out: code → count.
    untouched_count = models.BigIntegerField(db_default=0)
    left_out = models.JSONField(db_default=models.Value({}, models.JSONField()))
    #: What a person should know before: a list of objects with `code` and figures.
    warnings = models.JSONField(db_default=models.Value([], models.JSONField()))

    class Meta:
        db_table = "plans"
        constraints = [
            legal("status", ["planning", "ready", "authorised", "done", "discarded"], "ck_plans_status"),
            legal("action", ["trash", "hardlink", "delete"], "ck_plans_action"),
        ]
        indexes = [
            # Plans that wait for somebody.
            models.Index(fields=["status", "-id"], name="ix_plans_status"),
        ]

    def __str__(self) -> str:
        return f"plan {self.pk}"


class PlanFile(models.Model):
    """One file in one plan, as it was when the plan was made: it stays, or it goes because another one stays.

    A file that goes names the one that stays; the database refuses any that does not, or whose keeper goes itself or
    has other content (`duplicates.objects`). So no group can lose its last file.
    """

    class Role(models.TextChoices):
        KEEP = "keep"
        REMOVE = "remove"

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="files", db_index=False)
    role = models.CharField(max_length=16, choices=Role.choices)
    hash_algorithm = models.CharField(max_length=16)
    content_hash = models.BinaryField(max_length=32)
    #: The row in the index; it may be gone when somebody reads the plan.
    file = models.ForeignKey(
        LibraryFile, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+", db_index=False
    )
    library = models.ForeignKey(
        LibraryRoot, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+", db_index=False
    )
    relative_path = models.CharField(max_length=4096)
    #: The path without the name, and without a slash at its end.
    folder = models.CharField(max_length=4096, db_default="", blank=True)
    size_bytes = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    ctime_ns = models.BigIntegerField(null=True, blank=True)
    inode = models.BigIntegerField(null=True, blank=True)
    device = models.BigIntegerField(null=True, blank=True)
    nlink = models.BigIntegerField(null=True, blank=True)
    keeper = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="victims", db_index=False
    )
    action = models.CharField(max_length=16, choices=Action.choices, null=True, blank=True)  # noqa: DJ001
    #: Why it stays or goes, as a person reads it.
    reason = models.TextField(db_default="", blank=True)
    #: A person took it out: it is listed, and nothing is done to it.
    is_out = models.BooleanField(db_default=False)

    class Meta:
        db_table = "plan_files"
        constraints = [
            legal("role", ["keep", "remove"], "ck_plan_files_role"),
            models.CheckConstraint(
                condition=Q(role="keep", keeper__isnull=True, action__isnull=True)
                | Q(role="remove", keeper__isnull=False, action__in=["trash", "hardlink", "delete"]),
                name="ck_plan_files_keeper",
            ),
            models.CheckConstraint(condition=_is_digest("content_hash"), name="ck_plan_files_content_hash"),
            models.UniqueConstraint(fields=["plan", "file"], name="ux_plan_files_file"),
        ]
        indexes = [
            models.Index(fields=["plan", "id"], name="ix_plan_files_plan"),
            models.Index(fields=["plan", "hash_algorithm", "content_hash"], name="ix_plan_files_group"),
            models.Index(fields=["keeper"], name="ix_plan_files_keeper"),
            models.Index(fields=["plan", "library", "role", "id"], name="ix_plan_files_library"),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.relative_path}"


class PlanFolder(models.Model):
    """What a plan does to one folder: how many of the files right inside it go."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="folders", db_index=False)
    library = models.ForeignKey(
        LibraryRoot, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+", db_index=False
    )
    folder = models.CharField(max_length=4096, db_default="", blank=True)
    #: Files right inside it that the index knows, and those of them that go.
    file_count = models.BigIntegerField(db_default=0)
    remove_count = models.BigIntegerField(db_default=0)
    remove_bytes = models.BigIntegerField(db_default=0)
    #: Whether files could be taken out of it when the plan was made; null where that is not known.
    is_writable = models.BooleanField(null=True, blank=True)

    by_bytes = _negative("remove_bytes")

    class Meta:
        db_table = "plan_folders"
        indexes = [models.Index(fields=["plan", "by_bytes", "id"], name="ix_plan_folders_bytes")]

    def __str__(self) -> str:
        return self.folder


# --- Folders that share their content -----------------------------------------------------------------------
class FolderSearchQuerySet(LeasedQuerySet["FolderSearch"]):
    def due(self) -> FolderSearchQuerySet:
        return self.filter(status=FolderSearch.Status.PENDING)


class FolderSearch(LeasedModel):
    """One search for folders that share their content; the last one that completed is what pages show.

    pending ──claim──▶ running ──▶ completed | failed
       ▲──lost, released──┘
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"

    MOVES = {
        "pending": frozenset({"running", "failed"}),
        "running": frozenset({"completed", "failed", "pending"}),
    }
    lease_rules = LeaseRules(
        claimable=("pending",),
        recovered="pending",
        outcomes=frozenset({"completed", "failed"}),
        claim_sets=("started_at",),
        progress=("processed_items", "total_items", "progress"),
    )

    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.PENDING)
    requested_by = models.CharField(max_length=150, db_default="", blank=True)
    progress = models.FloatField(db_default=0.0)
    processed_items = models.BigIntegerField(db_default=0)
    total_items = models.BigIntegerField(null=True, blank=True)
    pair_count = models.BigIntegerField(db_default=0)
    error_code = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    error_message = models.TextField(null=True, blank=True)  # noqa: DJ001
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = FolderSearchQuerySet.as_manager()

    class Meta:
        db_table = "folder_searches"
        verbose_name_plural = "folder searches"
        constraints = [legal("status", ["pending", "running", "completed", "failed"], "ck_folder_searches_status")]

    def __str__(self) -> str:
        return f"folder search {self.pk}"


class FolderPair(models.Model):
    """Two folders that share content, with everything below them; `left` is the one that holds less besides."""

    search = models.ForeignKey(FolderSearch, on_delete=models.CASCADE, related_name="pairs", db_index=False)
    left_library = models.ForeignKey(
        LibraryRoot, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+", db_index=False
    )
    left_folder = models.CharField(max_length=4096, db_default="", blank=True)
    right_library = models.ForeignKey(
        LibraryRoot, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+", db_index=False
    )
    right_folder = models.CharField(max_length=4096, db_default="", blank=True)
    #: Contents that both have.
    shared_files = models.BigIntegerField()
    shared_bytes = models.BigIntegerField()
    #: All that is in each, and how many of its files the other one has not.
    left_files = models.BigIntegerField()
    left_bytes = models.BigIntegerField()
    left_only_files = models.BigIntegerField()
    right_files = models.BigIntegerField()
    right_bytes = models.BigIntegerField()
    right_only_files = models.BigIntegerField()

    by_bytes = _negative("shared_bytes")

    class Meta:
        db_table = "folder_pairs"
        indexes = [models.Index(fields=["search", "by_bytes", "id"], name="ix_folder_pairs_bytes")]

    def __str__(self) -> str:
        return f"{self.left_folder} and {self.right_folder}"
