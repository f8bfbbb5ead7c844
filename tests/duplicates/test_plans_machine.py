"""Every group keeps at least one file, in all circumstances: plans by random rules and choices by hand, while our code
and a foreign writer change the files between the planner's reads and writes, and between the plan and what people
change in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from duplicates import facts, plan_changing, plan_making, planning, summary
from duplicates.facts import Digest
from duplicates.models import Action, Plan, PlanFile, PlanFolder
from jobs.models import Job
from libraries.errors import Refused
from libraries.models import LibraryState
from tests.duplicates.contents import digest_of, foreign_writer
from tests.duplicates.plans import check
from tests.duplicates.rule_trees import Rules, rule_sets
from tests.duplicates.test_groups_machine import SIZES, Files, contents, picks

pytestmark = pytest.mark.django_db

#: `make torture` asks for more.
EXAMPLES = 25 if settings().max_examples <= 100 else settings().max_examples
#: With empty files, which are planned only if asked for.
EVERYTHING = "least_bytes=0"
MOST_PLANS = 4

Edit = tuple[str, int, str | None]
#: What the foreign writer does at one moment of the planning; mostly contents come and go.
edits = st.lists(
    st.none() | st.tuples(st.sampled_from(["content", "content", "missing", "delete", "insert"]), picks, contents),
    max_size=12,
)
#: Of random ones many let every file stay; the first are for plans in which much goes.
telling = st.sampled_from(["keep_oldest", "keep_newest", "keep_longest_path"]).map(lambda kind: [{"kind": kind}])
marks = st.dictionaries(picks, st.sampled_from(["keep", "remove"]), max_size=6)


class Plans(Files):
    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Edit | None] = []
        #: Plan → content → the files that the planner read of it. A group comes by twice when its first file changes.
        self.read: dict[int, dict[Digest, list[set[int]]]] = {}
        self.now_reading: dict[Digest, list[set[int]]] = {}
        with transaction.atomic(), connection.cursor() as cursor:
            for table in ("plans", "plan_files", "plan_folders"):
                cursor.execute(f"DELETE FROM {table}")
            Job.objects.all().delete()
            LibraryState.objects.all().delete()

    @initialize(portion=st.sampled_from([2, 20_000]))
    def begin(self, portion: int) -> None:
        super().begin(portion)
        # Others of each content, so that rules can tell them apart.
        for number, content in enumerate(SIZES):
            self.insert("foreign", content, 1, "sub/", number + 1, None, 1, 2)
        # With a plan to begin with, in which each group loses two, there is something to change from the first step.
        self.make([{"kind": "keep_oldest"}], {}, None, "trash", [])
        assert [len(self.rows(role=role)) for role in ("keep", "remove")] == [2 * len(SIZES)] * 2

    # --- In the midst of planning ---------------------------------------------------------------------------
    def next_edit(self) -> None:
        edit = self.waiting.pop(0) if self.waiting else None
        if edit is None or not self.files:
            return
        what, pick, content = edit
        if what == "insert":
            self.insert("foreign", content, pick, "sub/" if pick % 2 else "", pick % 5, pick % 4 or None, 1, 1)
        elif what == "delete":
            self.delete("foreign", pick)
        else:
            self.update("foreign", pick, content, what)

    def reading(self, digests: Sequence[Digest], *, using: str) -> Any:
        """Stands for `files_of`: what is written right after the planner has read, it does not see."""
        found = facts.files_of(digests, using=using)
        for digest in digests:
            there = {key for key, row in self.files.items() if _counts(row) and row["content_hash"] == digest[1]}
            assert {file.id for file in found.get(digest, [])} == there
            self.now_reading.setdefault(digest, []).append(there)
        self.next_edit()
        return found

    # --- What people do -------------------------------------------------------------------------------------
    @precondition(lambda self: len(self.read) < MOST_PLANS)
    @rule(
        rules=telling | rule_sets(), by_hand=marks, doomed=contents, action=st.sampled_from(Action.values),
        meanwhile=edits,
    )  # fmt: skip
    def make(
        self, rules: Rules, by_hand: dict[int, str], doomed: str | None, action: str, meanwhile: list[Edit | None]
    ) -> None:
        """All files of the doomed content are marked to go, which a form would refuse: the planner has to."""
        choices = {str(key): choice for key, choice in {**self.chosen(by_hand), **self.all_of(doomed)}.items()}
        if not rules and not choices:
            return
        wish = planning.checked(action, self.here(rules), filter=EVERYTHING, choices=choices)
        self.waiting, self.now_reading = list(meanwhile), {}
        plan = planning.plan_now(wish, actor="otto")
        assert plan.status == "ready", plan.job and plan.job.error_message
        self.waiting = []
        self.read[plan.pk] = self.now_reading

    def chosen(self, by_hand: dict[int, str]) -> dict[int, str]:
        keys = sorted(self.files)
        return {keys[pick % len(keys)]: choice for pick, choice in by_hand.items()} if keys else {}

    def all_of(self, content: str | None) -> dict[int, str]:
        wanted = None if content is None else digest_of(content)
        return {key: "remove" for key, row in self.files.items() if wanted and row["content_hash"] == wanted}

    def here(self, rules: Rules) -> Rules:
        """The rules about folders of the libraries there are."""
        return [
            {**each, "folders": [self.folder(**one) for one in each["folders"]]} if "folders" in each else each
            for each in rules
        ]

    def folder(self, library: int, path: str) -> dict[str, Any]:
        return {"library": self.libraries[library % 3].pk, "path": "sub" if path else ""}

    def rows(self, **which: Any) -> list[Any]:
        return list(PlanFile.objects.filter(**which).order_by("pk"))

    @rule(pick=picks, count=st.integers(1, 4), verb=st.sampled_from([plan_changing.take_out, plan_changing.put_back]))
    def take_out_or_put_back(self, pick: int, count: int, verb: Any) -> None:
        if victims := self.rows(role="remove"):
            first = victims[pick % len(victims)]
            some = [row.pk for row in victims if row.plan_id == first.plan_id and row.pk >= first.pk][:count]
            verb(first.plan_id, some, actor="vera")

    @rule(pick=picks, verb=st.sampled_from([plan_changing.take_folder_out, plan_changing.put_folder_back]))
    def take_folder_out_or_put_it_back(self, pick: int, verb: Any) -> None:
        if folders := list(PlanFolder.objects.order_by("pk")):
            folder = folders[pick % len(folders)]
            verb(folder.plan_id, folder.pk, actor="vera")

    @rule(pick=picks)
    def swap_keeper(self, pick: int) -> None:
        if victims := self.rows(role="remove"):
            chosen = victims[pick % len(victims)]
            try:
                plan_changing.swap_keeper(chosen.plan_id, chosen.pk, actor="vera")
            except Refused:
                return  # the keeper lies in a protected place or a backup
            assert PlanFile.objects.get(pk=chosen.pk).role == "keep"

    @rule(pick=picks)
    def stranger_takes_a_keeper(self, pick: int) -> None:
        """The database itself refuses that the file goes for which others go."""
        if victims := self.rows(role="remove"):
            victim = victims[pick % len(victims)]
            kept = self.rows(plan_id=victim.plan_id, role="keep", content_hash=victim.content_hash)
            instead = [row.pk for row in kept if row.pk != victim.keeper_id] or [victim.pk]
            sql = "UPDATE plan_files SET role = 'remove', action = 'trash', keeper_id = %s WHERE id = %s"
            with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
                self.foreign.run(sql, instead[0], victim.keeper_id)

    # --- What holds -----------------------------------------------------------------------------------------
    @invariant()
    def every_group_keeps_a_file(self) -> None:
        for plan in Plan.objects.all():
            check(plan)
            groups: dict[Digest, list[PlanFile]] = {}
            for row in self.rows(plan=plan):
                groups.setdefault((row.hash_algorithm, bytes(row.content_hash)), []).append(row)
            for digest, rows in groups.items():
                assert any(row.role == "keep" for row in rows), "the last file of a group would go"
                assert {row.file_id for row in rows} in self.read[plan.pk][digest], "the plan shows all of the group"
            every = [row for rows in groups.values() for row in rows]
            kept = {row.file_id for row in every if row.role == "keep"}
            assert kept.isdisjoint(row.file_id for row in every if row.role == "remove")


def _counts(row: dict[str, Any]) -> bool:
    return row["content_hash"] is not None and not row["is_missing"] and not row["needs_hash"]


def test_every_group_keeps_a_file_whatever_is_planned_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST", summary.MOST)  # the machine turns it; afterwards it is as before
    monkeypatch.setattr(plan_making, "BATCH_FILES", 1)
    monkeypatch.setattr("duplicates.listing.PAGE", 1)
    with foreign_writer() as foreign:

        class Machine(Plans):
            def __init__(self) -> None:
                super().__init__()
                self.foreign = foreign
                monkeypatch.setattr(plan_making, "files_of", self.reading)
                monkeypatch.setattr(plan_making, "reach", lambda _point: self.next_edit())

        run_state_machine_as_test(
            Machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=20, deadline=None)
        )
