"""Random rows written by our code and by a foreign writer, interleaved with page reads, against a model of the files:
the summary equals a recount whenever it is read, and a walk by pages neither repeats nor skips a group that was there,
unchanged, all the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from database.routing import EXECUTOR
from duplicates import examining, listing, summary
from duplicates.examining import Counted
from duplicates.facts import Digest, FileFacts, read_places
from duplicates.filtering import Filter
from duplicates.listing import ORDERS
from duplicates.models import DuplicateGroup, GroupChange, Summary
from libraries.models import LibraryFile, LibraryRoot
from tests import factories
from tests.duplicates.contents import Foreign, digest_of, foreign_writer

pytestmark = pytest.mark.django_db

#: `make torture` asks for more.
EXAMPLES = 10 if settings().max_examples <= 100 else settings().max_examples
COLUMNS = (
    "library_id", "relative_path", "size_bytes", "mtime_ns", "inode", "device", "nlink", "is_missing", "needs_hash",
    "hash_algorithm", "content_hash",
)  # fmt: skip
#: Content → size; one of them is empty.
SIZES = {"empty": 0, "one": 5, "two": 5, "large": 70_000}
FOLDERS = ("", "keep/", "sub/")
EVERYTHING = Filter(least_bytes=0, ignored="all")

contents = st.sampled_from([*SIZES, None])
writers = st.sampled_from(["ours", "foreign"])
orders = st.sampled_from(sorted(ORDERS))
picks = st.integers(0, 1000)


@dataclass
class Walk:
    """Somebody who turns pages: what they have seen, and which groups were there unchanged since they began."""

    order: str
    unchanged: dict[Digest, Any]
    touched: set[Digest] = field(default_factory=set)
    seen: list[Digest] = field(default_factory=list)
    cursor: str | None = None


class Files(RuleBasedStateMachine):
    """Rows of files, written by our code and by a foreign writer, with a model of them."""

    foreign: Foreign

    @initialize(portion=st.sampled_from([2, 20_000]))
    def begin(self, portion: int) -> None:
        summary.MOST = portion
        with transaction.atomic():
            for table in (LibraryFile, LibraryRoot, DuplicateGroup, GroupChange, Summary):
                table.objects.all().delete()
        self.libraries = [factories.library(name, protected_folders="keep") for name in "abc"]
        self.files: dict[int, dict[str, Any]] = {}
        self.made = 0
        # A group of each content to begin with, so that most steps change one.
        for content in SIZES:
            self.insert("ours", content, 0, "", 0, None, 1, 2)

    def changed(self) -> None:
        """For who has to know that the files are no longer as they were."""

    # --- Writing --------------------------------------------------------------------------------------------
    @rule(
        writer=writers, content=contents, library=picks, folder=st.sampled_from(FOLDERS), mtime=st.integers(-3, 3),
        inode=st.none() | st.integers(1, 4), links=st.none() | st.integers(1, 3), again=st.integers(1, 3),
    )  # fmt: skip
    def insert(
        self, writer: str, content: str | None, library: int, folder: str, mtime: int, inode: int | None,
        links: int | None, again: int,
    ) -> None:  # fmt: skip
        for _ in range(again):
            self.made += 1
            row = {
                "library_id": self.libraries[library % 3].pk,
                "relative_path": f"{folder}{self.made}",
                "size_bytes": SIZES[content or "one"],
                "mtime_ns": mtime,
                "inode": inode,
                "device": 1,
                "nlink": links,
                "is_missing": False,
                "needs_hash": content is None,
                "hash_algorithm": None if content is None else "sha256",
                "content_hash": None if content is None else digest_of(content),
            }
            if writer == "ours":
                key = LibraryFile.objects.create(**row).pk
            else:
                key = self.foreign.insert(COLUMNS, [row[column] for column in COLUMNS])
            self.files[key] = row
        self.changed()

    @precondition(lambda self: self.files)
    @rule(writer=writers, pick=picks, content=contents, what=st.sampled_from(["content", "missing", "stale", "links"]))
    def update(self, writer: str, pick: int, content: str | None, what: str) -> None:
        key = sorted(self.files)[pick % len(self.files)]
        row = self.files[key]
        changes: dict[str, Any] = {
            "content": {
                "content_hash": None if content is None else digest_of(content),
                "hash_algorithm": None if content is None else "sha256",
                "size_bytes": SIZES[content or "one"],
                "needs_hash": content is None,
                "mtime_ns": row["mtime_ns"] + 1,
            },
            "missing": {"is_missing": not row["is_missing"]},
            "stale": {"needs_hash": not row["needs_hash"]},
            "links": {"inode": pick % 5 or None, "nlink": pick % 3},
        }[what]
        if writer == "ours":
            LibraryFile.objects.filter(pk=key).update(**changes)
        else:
            sets = ", ".join(f"{column} = %s" for column in changes)
            self.foreign.run(f"UPDATE library_files SET {sets} WHERE id = %s", *changes.values(), key)
        row.update(changes)
        self.changed()

    @precondition(lambda self: self.files)
    @rule(writer=writers, pick=picks)
    def delete(self, writer: str, pick: int) -> None:
        key = sorted(self.files)[pick % len(self.files)]
        if writer == "ours":
            LibraryFile.objects.filter(pk=key).delete()
        else:
            self.foreign.run("DELETE FROM library_files WHERE id = %s", key)
        del self.files[key]
        self.changed()

    @rule(pick=picks, role=st.sampled_from(["normal", "protected", "backup"]))
    def change_role(self, pick: int, role: str) -> None:
        LibraryRoot.objects.filter(pk=self.libraries[pick % 3].pk).update(role=role)
        self.changed()


class Groups(Files):
    """Pages are turned and groups counted in between."""

    def __init__(self) -> None:
        super().__init__()
        self.walks: list[Walk] = []

    # --- The model ------------------------------------------------------------------------------------------
    def counted(self) -> dict[Digest, Counted]:
        """What the files in the model amount to."""
        places = read_places()
        by_digest: dict[Digest, list[FileFacts]] = {}
        for key, row in self.files.items():
            if row["content_hash"] is None or row["is_missing"] or row["needs_hash"]:
                continue
            facts = FileFacts(
                key, places[row["library_id"]], row["relative_path"], row["size_bytes"], row["mtime_ns"], None,
                row["inode"], row["device"], row["nlink"], None,
            )  # fmt: skip
            by_digest.setdefault((row["hash_algorithm"], row["content_hash"]), []).append(facts)
        return {digest: examining.count(files) for digest, files in by_digest.items() if len(files) > 1}

    def changed(self) -> None:
        """Note for every walk which groups are no longer as they were."""
        now = self.counted()
        for walk in self.walks:
            places = self.places(now, walk.order)
            for digest in {*walk.unchanged, *places}:
                if walk.unchanged.get(digest) != places.get(digest):
                    walk.touched.add(digest)
                    walk.unchanged.pop(digest, None)

    def places(self, groups: dict[Digest, Counted], order: str) -> dict[Digest, Any]:
        """Where each group stands in an order, as far as its own figures say."""
        names = [*ORDERS[order].figures, *([] if order == "copies" else ["sample_file_id"])]
        return {digest: [getattr(group, name) for name in names] for digest, group in groups.items()}

    # --- Reading --------------------------------------------------------------------------------------------
    @rule()
    def count_as_executor(self) -> None:
        assert summary.bring_up_to_date(EXECUTOR)

    @rule(order=orders)
    def begin_walk(self, order: str) -> None:
        self.walks.append(Walk(order, self.places(self.counted(), order)))

    @precondition(lambda self: self.walks)
    @rule(pick=picks, size=st.integers(1, 2))
    def turn_page(self, pick: int, size: int) -> None:
        walk = self.walks[pick % len(self.walks)]
        if self.turn(walk, size):
            self.walks.remove(walk)

    def turn(self, walk: Walk, size: int) -> bool:
        page = listing.page(EVERYTHING, walk.order, walk.cursor, size)
        assert page.is_complete
        walk.seen += [(group.hash_algorithm, bytes(group.content_hash)) for group in page.groups]
        walk.cursor = page.next_cursor
        repeated = {digest for digest in walk.seen if walk.seen.count(digest) > 1}
        assert repeated <= walk.touched
        if walk.cursor is None:
            assert set(walk.unchanged) <= set(walk.seen)
        return walk.cursor is None

    @rule(order=orders, size=st.integers(1, 3))
    def walk_at_once(self, order: str, size: int) -> None:
        now = self.counted()
        walk = Walk(order, self.places(now, order))
        while not self.turn(walk, size):
            pass

        def place(digest: Digest) -> Any:
            figures = [-getattr(now[digest], figure) for figure in ORDERS[order].figures]
            return (figures, digest if order == "copies" else now[digest].sample_file_id)

        assert walk.seen == sorted(now, key=place)

    @rule()
    def count_a_portion(self) -> None:
        """What is written after a part was counted must not be lost on it."""
        counting = summary._Counting("default")
        if counting.is_behind():
            counting.step()

    @rule()
    def begin_a_recount(self) -> None:
        counting = summary._Counting("default")
        with counting.transaction():
            counting.begin_recount()
        counting.step()

    @rule()
    def summary_equals_a_recount(self) -> None:
        if not hasattr(self, "files"):
            return
        assert summary.bring_up_to_date()
        assert dict(examining._summarised()) == self.counted()

    def teardown(self) -> None:
        self.summary_equals_a_recount()
        for walk in self.walks:
            while not self.turn(walk, 2):
                pass


def test_pages_and_summary_hold_whoever_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST", summary.MOST)  # the machine turns it; afterwards it is as before
    with foreign_writer() as foreign:
        machine = type("Machine", (Groups,), {"foreign": foreign})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=20, deadline=None)
        )
