"""Random trees, links, rules, plans and edits in between, against a model of the tree that gets the same edits and
knows nothing of DedupFS: every content that the model has is readable somewhere, in a library or in its trash, at every
moment; and when everything is undone, the tree is the model's, metadata included: that of files, and that of folders
which went with the last of their files. What was removed for good is no longer the model's, but its content is still
readable. Files go in one batch or in many, by the hand of an act or without one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections, transaction
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django import Settings

from duplicates import planning
from duplicates.models import Plan
from jobs.executing import drain_all
from libraries.errors import Refused
from libraries.models import LibraryFile, LibraryRoot
from libraries.names import to_bytes
from tests.conftest import BELOW_WATCHED, WATCHED
from tests.libraries.scans import library_at, scan
from trash import preparing, steps
from trash.authorising import ask_undo, authorise, authorise_emptying
from trash.choosing_items import figures, lying
from trash.models import Act, Switches, TrashItem

pytestmark = pytest.mark.django_db

#: `make torture` asks for more.
EXAMPLES = 15 if hypothesis_settings().max_examples <= 100 else hypothesis_settings().max_examples // 4
STEPS = 6
NAMES = [b"a", b"b", b"caf\xe9", b"x/a", b"x/b", b"x/y/c", b"-z/d\n", b"e"]
CONTENTS = [b"one", b"two" * 1000, b"", os.urandom(300_000)]
#: Only root gives files to others.
OWNERS = [(0, 0), (1234, 0), (1234, 4321)] if os.geteuid() == 0 else [(os.geteuid(), os.getegid())]
#: One hands its group on to what is made in it.
FOLDER_MODES = [0o755, 0o700, 0o2775, 0o1777]
RULES: list[list[dict[str, Any]]] = [
    [{"kind": "keep_shortest_path"}],
    [{"kind": "keep_oldest"}],
    [{"kind": "keep_newest"}, {"kind": "keep_longest_path"}],
    [{"kind": "keep_copies", "count": 2}, {"kind": "keep_shortest_path"}],
]

names = st.sampled_from(NAMES)
contents = st.integers(0, len(CONTENTS) - 1)
sides = st.sampled_from(["left", "right"])
#: Whether something is written, deleted or linked, where, what, and the name of the link.
Edit = tuple[str, str, bytes, int, bytes]
edits: st.SearchStrategy[list[Edit]] = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "link"]), sides, names, contents, names), max_size=3
)
#: Rules, action, and whether the plan's options are set.
Wish = tuple[list[dict[str, Any]], str, bool]
wishes: st.SearchStrategy[Wish] = st.tuples(
    st.sampled_from(RULES), st.sampled_from(["trash", "hardlink", "delete"]), st.booleans()
)
#: From how many files on there is a hand, and with how many the first batch begins.
ways = st.tuples(st.sampled_from([1, 1000]), st.sampled_from([1, 1000]))


@dataclass(frozen=True)
class Entry:
    """A file as the model has it. Names with one `inode` are links of each other."""

    content: bytes
    mtime_ns: int
    mode: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, bytes], ...]
    inode: int


@dataclass(frozen=True)
class FolderEntry:
    """A folder as the model has it."""

    mode: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, bytes], ...]


class Disks(RuleBasedStateMachine):
    folder: Path
    patch: pytest.MonkeyPatch

    @initialize(
        files=st.lists(st.tuples(sides, names, contents), min_size=5, max_size=16),
        links=st.lists(st.tuples(sides, names, names), max_size=3),
        way=ways,
    )
    def begin(
        self, files: list[tuple[str, bytes, int]], links: list[tuple[str, bytes, bytes]], way: tuple[int, int]
    ) -> None:
        _forget_rows()
        self.patch.setattr(settings, "ACT_HAND_FILES", way[0])
        self.patch.setattr(preparing, "LEAST_FILES", way[1])
        #: Rows of what went for good that the model was told of, and folders that have nothing to come back for.
        self.forgotten: set[int] = set()
        self.unneeded: set[bytes] = set()
        self.root = Path(tempfile.mkdtemp(dir=self.folder))
        self.model: dict[bytes, Entry] = {}
        #: What lies in the trash and has lost its place to another file since, the last one last.
        self.displaced: dict[bytes, list[Entry]] = {}
        #: What each folder has been like: more than one where people made it again, after it had gone with its files.
        #: Then it is as one of these, whichever of its files came back first.
        self.folders: dict[bytes, list[FolderEntry]] = {}
        self.clock = 1_600_000_000_000_000_000
        self.libraries = []
        for side in ("left", "right"):
            (self.root / side).mkdir()
            self.libraries.append(library_at(self.root / side, name=side))
        for side, name, content in files:
            self.write(side, name, content)
        for side, name, other in links:
            self.link(side, name, other)

    # --- Edits, on the disk and in the model --------------------------------------------------------------
    @rule(side=sides, name=names, content=contents)
    def write(self, side: str, name: bytes, content: int) -> None:
        """As careful programs save: a new file, renamed over the old one."""
        key = side.encode() + b"/" + name
        path = self.at(key)
        if path is None:
            return
        if key in self.model and self.is_away(key):
            self.displaced.setdefault(key, []).append(self.model[key])
        self.clock += 1_000_000_007
        draft = self.root / "draft"
        draft.write_bytes(CONTENTS[content])
        mode, tag = (0o640, b"red") if content % 2 else (0o644, b"")
        owner = OWNERS[self.clock % len(OWNERS)]
        os.chown(draft, *owner)  # before the mode: a change of owner may take bits of it away
        draft.chmod(mode)
        if tag:
            os.setxattr(draft, "user.tag", tag)
        os.utime(draft, ns=(self.clock, self.clock))
        inode = draft.stat().st_ino
        draft.rename(path)
        attributes = (("user.tag", tag),) if tag else ()
        self.model[key] = Entry(CONTENTS[content], self.clock, mode, owner, attributes, inode)

    @rule(side=sides, name=names, other=names)
    def link(self, side: str, name: bytes, other: bytes) -> None:
        """One more name for a file that is there, where none is, or none any more. Where a link has replaced the file,
        that gets the name."""
        old, new = side.encode() + b"/" + name, side.encode() + b"/" + other
        if not os.path.lexists(self.whole(old)) or os.path.lexists(self.whole(new)):
            return
        inode = os.stat(self.whole(old)).st_ino
        entry = next((each for each in self.model.values() if each.inode == inode), None)
        path = None if entry is None else self.at(new)
        if entry is None or path is None:
            return  # its file was deleted, and lives on as a link of which the model knows nothing
        if new in self.model:
            self.displaced.setdefault(new, []).append(self.model[new])
        os.link(self.whole(old), path)
        self.model[new] = entry

    @rule(name=names, side=sides)
    def delete(self, name: bytes, side: str) -> None:
        """A person deletes what they see. (What a link has replaced they don't: it comes back when that is undone. So
        does what lies in the trash and has its place again by this.)"""
        key = side.encode() + b"/" + name
        if key in self.model and not self.is_away(key):
            os.unlink(self.whole(key))
            del self.model[key]
            if self.displaced.get(key):
                self.model[key] = self.displaced[key].pop()

    def is_away(self, key: bytes) -> bool:
        """Whether it lies in the trash, with or without a link in its place."""
        path = self.whole(key)
        return not os.path.lexists(path) or os.stat(path).st_ino != self.model[key].inode

    # --- DedupFS --------------------------------------------------------------------------------------------
    @rule()
    def scan(self) -> None:
        for library in self.libraries:
            scan(library, accept_missing=True)

    @rule(wish=wishes, then=edits, last=edits)
    def carry_out(self, wish: Wish, then: list[Edit], last: list[Edit]) -> None:
        """Scan, plan, authorise, act; people go on with their files between the steps."""
        self.scan()
        plan = self.planned(wish)
        self.edit(then)
        if self.authorise(plan):
            self.edit(last)
            self.act()

    @rule(first=wishes, second=wishes, then=edits)
    def carry_out_two(self, first: Wish, second: Wish, then: list[Edit]) -> None:
        """Two plans over the same groups: the second one lives only where they have no file in common."""
        self.scan()
        plans = [self.planned(first), self.planned(second)]
        self.edit(then)
        accepted = [self.authorise(plan) for plan in plans]
        if any(accepted):
            self.act()

    def planned(self, wish: Wish) -> Plan:
        rules, action, is_tidy = wish
        plan = planning.plan_now(planning.checked(action, rules), actor="test")
        Plan.objects.filter(pk=plan.pk).update(removes_empty_folders=is_tidy, links_despite_metadata=is_tidy)
        return plan

    def went_for_good(self, status: str) -> None:
        """The model has them no longer. Their contents were all readable until here, and are from here on."""
        self.nothing_is_lost()
        for row in TrashItem.objects.filter(status=status).exclude(pk__in=self.forgotten).select_related("plan_file"):
            self.forgotten.add(row.pk)
            side = LibraryRoot.objects.get(pk=row.library_id).name
            self.forget(side.encode() + b"/" + to_bytes(row.plan_file.relative_path), (row.inode or 0) % (1 << 64))
        self.unneeded |= {key for key in self.folders if not os.path.lexists(self.whole(key))}

    def forget(self, key: bytes, inode: int) -> None:
        older = self.displaced.get(key, [])
        if key in self.model and self.model[key].inode == inode and self.is_away(key):
            del self.model[key]
            if older:
                self.model[key] = older.pop()
            elif os.path.lexists(self.whole(key)):
                # A link has its place, and now nothing is left to come back there: the name is that file's.
                self.model[key] = _entry(self.whole(key))
            return
        older.remove(next(each for each in reversed(older) if each.inode == inode))

    def authorise(self, plan: Plan) -> bool:
        try:
            authorise(plan.pk, plan.remove_count, actor="test")
        except Refused:
            return False  # nothing goes, or another plan has one of its files
        return True

    def act(self) -> None:
        drain_all("jobs")
        assert not Act.objects.filter(status__in=Act.LIVING).exists()
        self.went_for_good("deleted")

    def edit(self, edits: list[Edit]) -> None:
        for verb, side, name, content, other in edits:
            if verb == "write":
                self.write(side, name, content)
            elif verb == "link":
                self.link(side, name, other)
            else:
                self.delete(name, side)

    @precondition(lambda _: TrashItem.objects.filter(status="trashed").exists())
    @rule(pick=st.integers(0, 100))
    def undo_one(self, pick: int) -> None:
        """The last that went from a path: who asks for an older one gets that, and the model knows of no such wish."""
        rows = TrashItem.objects.filter(status="trashed").order_by("pk")
        lying = list(
            {
                (library, path): pk
                for library, path, pk in rows.values_list("library", "plan_file__relative_path", "pk")
            }.values()
        )
        ask_undo({"items": [lying[pick % len(lying)]]}, actor="test")
        drain_all("jobs")

    @precondition(lambda _: TrashItem.objects.filter(status="trashed").exists())
    @rule()
    def empty(self) -> None:
        count, _ = figures(lying({"all": True}))
        authorise_emptying({"all": True}, count, actor="test")
        drain_all("jobs")
        self.went_for_good("emptied")

    def undo_all(self) -> None:
        if TrashItem.objects.filter(status="trashed").exists():
            ask_undo({"all": True}, actor="test")
        drain_all("jobs")

    # --- What must hold -------------------------------------------------------------------------------------
    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "model"):
            return
        readable = {path.read_bytes() for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()}
        for key, entry in self.model.items():
            assert entry.content in readable, key
        for key, entries in self.displaced.items():
            assert {each.content for each in entries} <= readable, key

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        # So that every example ends with something to undo.
        with _folders_removed() as removed:
            self.carry_out((RULES[0], "trash", True), [], [])
        self.nothing_is_lost()
        self.undo_last(removed)
        self.undo_all()
        left = list(TrashItem.objects.filter(status="trashed").values_list("plan_file__relative_path", "reason_code"))
        assert self.tree() == self.model, f"still in the trash: {left}"
        # Only what somebody has put something else in the place of is left there.
        assert {reason for _, reason in left} <= {"PLACE_TAKEN"}
        found = {key: _folder_entry(self.whole(key)) for key in self.folders_there()}
        assert found.keys() <= self.folders.keys()
        assert self.folders.keys() - found.keys() <= self.unneeded
        assert {key: entry for key, entry in found.items() if entry not in self.folders[key]} == {}
        shutil.rmtree(self.root)

    def undo_last(self, removed: dict[bytes, int]) -> None:
        """Folders that went with the last act have their times again, to the nanosecond, when it is undone."""
        last = Act.objects.filter(verb="act").order_by("-pk").first()
        if last is None or not TrashItem.objects.filter(act=last, status="trashed").exists():
            return
        ask_undo({"plan": last.plan_id}, actor="test")
        drain_all("jobs")
        assert {path: os.stat(path).st_mtime_ns for path in removed} == removed

    # --- Helpers --------------------------------------------------------------------------------------------
    def whole(self, key: bytes) -> bytes:
        return os.fsencode(self.root) + b"/" + key

    def at(self, key: bytes) -> Path | None:
        """Where a new file of that name can be; its folder is made again where it was taken away."""
        path = Path(os.fsdecode(self.whole(key)))
        above = key.split(b"/")[:-1]
        for depth in range(2, len(above) + 1):
            self.make_folder(b"/".join(above[:depth]))
        return None if path.is_dir() else path

    def make_folder(self, key: bytes) -> None:
        if os.path.lexists(self.whole(key)):
            return
        self.clock += 1_000_000_007
        path, owner = self.whole(key), OWNERS[self.clock % len(OWNERS)]
        mode = FOLDER_MODES[self.clock % len(FOLDER_MODES)]
        tag = (("user.tag", b"%d" % (self.clock % 3)),) if self.clock % 2 else ()
        os.mkdir(path)
        os.chown(path, *owner)
        os.chmod(path, mode)
        for name, value in tag:
            os.setxattr(path, name, value)
        self.folders.setdefault(key, []).append(FolderEntry(mode, owner, tag))

    def folders_there(self) -> Iterator[bytes]:
        """Below the libraries, and in no trash."""
        for side in ("left", "right"):
            for folder, folders, _ in os.walk(self.whole(side.encode())):
                if b".dedupfs-trash" in folders:
                    folders.remove(b".dedupfs-trash")
                for name in folders:
                    yield os.path.join(folder, name)[len(os.fsencode(self.root)) + 1 :]

    def tree(self) -> dict[bytes, Entry]:
        return dict(_entries(os.fsencode(self.root)))


def _entries(root: bytes) -> Iterator[tuple[bytes, Entry]]:
    for folder, folders, files in os.walk(root):
        if b".dedupfs-trash" in folders:
            folders.remove(b".dedupfs-trash")
        for name in files:
            path = os.path.join(folder, name)
            yield path[len(root) + 1 :], _entry(path)


def _entry(path: bytes) -> Entry:
    info = os.stat(path)
    attributes = tuple((each, os.getxattr(path, each)) for each in sorted(os.listxattr(path)))
    content = Path(os.fsdecode(path)).read_bytes()
    mode, owner = info.st_mode & 0o7777, (info.st_uid, info.st_gid)
    return Entry(content, info.st_mtime_ns, mode, owner, attributes, info.st_ino)


def _folder_entry(path: bytes) -> FolderEntry:
    info = os.stat(path)
    attributes = tuple((each, os.getxattr(path, each)) for each in sorted(os.listxattr(path)))
    return FolderEntry(info.st_mode & 0o7777, (info.st_uid, info.st_gid), attributes)


@contextmanager
def _folders_removed() -> Iterator[dict[bytes, int]]:
    """Paths and times of the folders that are taken away meanwhile, as they were right before that."""
    found: dict[bytes, int] = {}
    remove = steps.rmdir

    def seen(name: bytes, *, dir_fd: int) -> None:
        above = os.fsencode(os.readlink(f"/proc/self/fd/{dir_fd}"))
        mtime_ns = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mtime_ns
        remove(name, dir_fd=dir_fd)
        if b".dedupfs-trash" not in above.split(b"/") and name != b".dedupfs-trash":
            found[above + b"/" + name] = mtime_ns

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "rmdir", seen)
        yield found


def _forget_rows() -> None:
    with transaction.atomic(), connections["default"].cursor() as cursor:
        cursor.execute("UPDATE library_files SET last_seen_scan_id = NULL")
        for table in (*BELOW_WATCHED, *WATCHED):
            cursor.execute(f"DELETE FROM {table}")
        LibraryFile.objects.all().delete()
        LibraryRoot.objects.all().delete()
    allowed = {"is_acting_allowed": True, "is_removing_allowed": True}
    Switches.objects.update_or_create(pk=1, defaults=allowed)


@pytest.mark.timeout(3000)
def test_whatever_people_do_meanwhile_nothing_is_lost(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.YOUNG_HOURS, settings.ACT_GRACE_SECONDS, settings.ALLOW_REAL_DELETE = 0, 0, True
    Disks.folder, Disks.patch = tmp_path, monkeypatch
    run_state_machine_as_test(
        Disks, settings=hypothesis_settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
    )
