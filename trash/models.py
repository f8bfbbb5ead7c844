"""Acting on people's files: who authorised what, what became of each file, and what lies in a trash."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from duplicates.models import Plan, PlanFile
from jobs.models import Job, legal, new_job_id
from libraries.models import LibraryRoot


class Act(models.Model):
    """One authorised piece of work on files: carrying out a plan, undoing, or emptying the trash.

    authorised ──▶ running ──▶ completed | cancelled | failed | void
        └──────────────────────────▶ cancelled | failed | void

    It stays `running` while its job is lost and taken up again, and ends only when every file it may have touched is
    settled. `void` is one whose approval no longer counts, since the database is older than what was done.
    """

    class Verb(models.TextChoices):
        ACT = "act"
        UNDO = "undo"
        EMPTY = "empty"

    class Status(models.TextChoices):
        AUTHORISED = "authorised"
        RUNNING = "running"
        COMPLETED = "completed"
        CANCELLED = "cancelled"
        FAILED = "failed"
        VOID = "void"

    LIVING = (Status.AUTHORISED, Status.RUNNING)
    MOVES = {
        "authorised": frozenset({"running", "cancelled", "failed", "void"}),
        "running": frozenset({"completed", "cancelled", "failed", "void"}),
    }

    #: The name of its folder in each trash: other than a number it never comes again, whatever became of the database.
    key = models.CharField(max_length=36, unique=True, default=new_job_id)
    verb = models.CharField(max_length=16, choices=Verb.choices, db_default=Verb.ACT)
    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.AUTHORISED)
    #: What is carried out, or whose files come back or go for good; none where these are chosen otherwise.
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, null=True, blank=True, related_name="acts", db_index=False)
    job = models.OneToOneField(Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="act")
    #: Which files of the trash (`trash.choosing_items`), for undoing and emptying.
    selection = models.JSONField(db_default=models.Value({}, models.JSONField()))
    authorised_by = models.CharField(max_length=150)
    authorised_at = models.DateTimeField(db_default=Now())
    #: Until then it can be stopped before anything was done.
    starts_at = models.DateTimeField(db_default=Now())
    is_paused = models.BooleanField(db_default=False)

    #: What was authorised.
    file_count = models.BigIntegerField(db_default=0)
    total_bytes = models.BigIntegerField(db_default=0)
    #: How far it is: files that were done or skipped, and the sizes of all of them; time spent, over all tries.
    done_count = models.BigIntegerField(db_default=0)
    skipped_count = models.BigIntegerField(db_default=0)
    bytes_done = models.BigIntegerField(db_default=0)
    busy_seconds = models.FloatField(db_default=0.0)
    #: The same of the batch that is worked on and not on record yet (`trash.in_hand`).
    bytes_in_hand = models.BigIntegerField(db_default=0)
    seconds_in_hand = models.FloatField(db_default=0.0)
    #: What it put into a trash and is still there.
    trashed_count = models.BigIntegerField(db_default=0)
    trashed_bytes = models.BigIntegerField(db_default=0)
    #: Filesystem → [free bytes before, free bytes after], as the filesystem itself tells.
    space = models.JSONField(db_default=models.Value({}, models.JSONField()))
    #: The file below the state folder that proves it, and its SHA-256.
    proof_name = models.CharField(max_length=255, db_default="", blank=True)
    proof_sha256 = models.CharField(max_length=64, db_default="", blank=True)
    #: Why it failed or is void, as a person reads it.
    note = models.TextField(db_default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "acts"
        constraints = [
            legal("verb", ["act", "undo", "empty"], "ck_acts_verb"),
            legal("status", ["authorised", "running", "completed", "cancelled", "failed", "void"], "ck_acts_status"),
            models.CheckConstraint(condition=~Q(verb="act") | Q(plan__isnull=False), name="ck_acts_plan"),
            # A plan is carried out by one act at a time.
            models.UniqueConstraint(
                fields=["plan"],
                condition=Q(verb="act", status__in=["authorised", "running"]),
                name="ux_acts_living_plan",
            ),
        ]
        indexes = [
            # The acts of a plan, newest first; those that live.
            models.Index(fields=["plan", "-id"], name="ix_acts_plan"),
            models.Index(fields=["status", "id"], name="ix_acts_status"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.pk}"

    @property
    def is_living(self) -> bool:
        return self.status in Act.LIVING


class TrashItem(models.Model):
    """What an act did, or was about to do, to one file of a plan.

    intended ──▶ skipped | deleted
        └──▶ trashed ──▶ undoing ──▶ undone | trashed
                └──────▶ emptying ─▶ emptied | trashed

    A row is there before the first step is taken, and durable. `trashed` means that the file's own inode lies in the
    trash, also where a hard link took its place (`plan_file.action`).
    """

    class Status(models.TextChoices):
        INTENDED = "intended"
        SKIPPED = "skipped"
        TRASHED = "trashed"
        DELETED = "deleted"
        UNDOING = "undoing"
        UNDONE = "undone"
        EMPTYING = "emptying"
        EMPTIED = "emptied"

    #: Somebody was about to do something: only the disk knows whether it was done (`trash.settling`).
    OPEN = (Status.INTENDED, Status.UNDOING, Status.EMPTYING)
    MOVES = {
        "intended": frozenset({"skipped", "trashed", "deleted"}),
        "trashed": frozenset({"undoing", "emptying"}),
        "undoing": frozenset({"undone", "trashed"}),
        "emptying": frozenset({"emptied", "trashed"}),
    }

    act = models.ForeignKey(Act, on_delete=models.PROTECT, related_name="items", db_index=False)
    plan_file = models.ForeignKey(PlanFile, on_delete=models.PROTECT, related_name="trash_items", db_index=False)
    status = models.CharField(max_length=16, choices=Status.choices, db_default=Status.INTENDED)
    #: Why it was skipped, could not be undone, or stays in the trash.
    reason_code = models.CharField(max_length=64, db_default="", blank=True)
    reason = models.TextField(db_default="", blank=True)
    library = models.ForeignKey(
        LibraryRoot, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+", db_index=False
    )
    #: A digest of its path's bytes: a path may be longer than an index can hold.
    path_key = models.BinaryField(max_length=16)
    #: The folder below the library's root ("" is the root) whose `.dedupfs-trash` holds it.
    trash_folder = models.CharField(max_length=4096, db_default="", blank=True)
    #: The file as it was when it was acted on, and the inode that has its name since, where it became a link.
    device = models.BigIntegerField(null=True, blank=True)
    inode = models.BigIntegerField(null=True, blank=True)
    linked_inode = models.BigIntegerField(null=True, blank=True)
    acted_at = models.DateTimeField(null=True, blank=True)
    #: The act that undoes it or empties it.
    left_by = models.ForeignKey(
        Act, on_delete=models.PROTECT, null=True, blank=True, related_name="taken", db_index=False
    )
    left_at = models.DateTimeField(null=True, blank=True)
    #: Emptying found no other copy of its content: it stays.
    is_last_copy = models.BooleanField(db_default=False)
    #: Another file than the plan's lies in the trash (`trash.strays`): what it was like when it came there.
    stray_size_bytes = models.BigIntegerField(null=True, blank=True)
    stray_mtime_ns = models.BigIntegerField(null=True, blank=True)

    class Meta:
        db_table = "trash_items"
        constraints = [
            legal(
                "status",
                ["intended", "skipped", "trashed", "deleted", "undoing", "undone", "emptying", "emptied"],
                "ck_trash_items_status",
            ),
            models.UniqueConstraint(fields=["act", "plan_file"], name="ux_trash_items_file"),
        ]
        indexes = [
            # What lies in the trash, newest first, and what is open; what happened at a path; an act's files.
            models.Index(fields=["status", "id"], name="ix_trash_items_status"),
            models.Index(fields=["library", "path_key"], name="ix_trash_items_path"),
            models.Index(fields=["plan_file"], name="ix_trash_items_plan_file"),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.pk}"

    @property
    def is_stray(self) -> bool:
        return self.stray_size_bytes is not None

    @property
    def size_bytes(self) -> int:
        """Of the file that lies, or lay, in the trash."""
        return int(self.plan_file.size_bytes if self.stray_size_bytes is None else self.stray_size_bytes)


class RemovedFolder(models.Model):
    """A folder that was empty after an act and was taken away with it; undoing makes it again as it was."""

    act = models.ForeignKey(Act, on_delete=models.PROTECT, related_name="removed_folders", db_index=False)
    library = models.ForeignKey(
        LibraryRoot, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+", db_index=False
    )
    folder = models.CharField(max_length=4096)
    mode = models.IntegerField()
    uid = models.BigIntegerField()
    gid = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    #: Name → value, both in hexadecimal.
    attributes = models.JSONField(db_default=models.Value({}, models.JSONField()))
    is_back = models.BooleanField(db_default=False)

    class Meta:
        db_table = "removed_folders"
        indexes = [models.Index(fields=["act", "id"], name="ix_removed_folders_act")]

    def __str__(self) -> str:
        return self.folder


class Switches(models.Model):
    """One row: what admins have allowed. Everything is off until one of them says otherwise."""

    #: Move files to a trash, and replace them by hard links.
    is_acting_allowed = models.BooleanField(db_default=False)
    #: Delete for good and empty trashes; it needs `DEDUPFS_ALLOW_REAL_DELETE` as well.
    is_removing_allowed = models.BooleanField(db_default=False)
    #: `manage.py empty_trash` may empty what is older than so many days without asking again.
    empty_after_days = models.IntegerField(null=True, blank=True)
    updated_by = models.CharField(max_length=150, db_default="", blank=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "switches"
        verbose_name_plural = "switches"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="ck_switches_one"),
            models.CheckConstraint(
                condition=Q(empty_after_days__isnull=True) | Q(empty_after_days__gte=1), name="ck_switches_days"
            ),
        ]

    def __str__(self) -> str:
        return "switches"
