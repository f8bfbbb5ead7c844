"""Copies in the index and plans over them, for the tests of plans."""

from __future__ import annotations

from itertools import count
from typing import Any

from django.db import connections

from database.routing import POLICY
from duplicates import planning
from duplicates.models import Plan, PlanFile, PlanFolder, RuleSet
from duplicates.plan_storing import Totals, totals_of
from libraries.models import LibraryFile, LibraryRoot, LibraryState
from tests import factories

SHORTEST: list[dict[str, Any]] = [{"kind": "keep_shortest_path"}]
_inodes = count(1_000)


def library(name: str = "photos", **state: Any) -> LibraryRoot:
    """A library whose disk is there and can be written to."""
    made = factories.library(name)
    values = {"mount": "present", "is_writable": True, "filesystems": {"": "uuid-1"}, **state}
    LibraryState.objects.create(library=made, **values)
    return made


def digest(content: int) -> bytes:
    return content.to_bytes(32, "big")


def copies(where: LibraryRoot, content: int, *paths: str, size: int = 1_000, **fields: Any) -> list[LibraryFile]:
    """Files of equal content, each an inode of its own unless said otherwise."""
    rows = unsaved(where, content, *paths, size=size, **fields)
    for row in rows:
        row.save()
    return rows


def unsaved(where: LibraryRoot, content: int, *paths: str, size: int = 1_000, **fields: Any) -> list[LibraryFile]:
    """The same, to be written many at a time."""
    values = {"mtime_ns": 1, "ctime_ns": 1, "device": 1, "nlink": 1, "needs_hash": False, "is_missing": False, **fields}
    return [
        LibraryFile(
            library=where,
            relative_path=path,
            size_bytes=size,
            hash_algorithm="blake3",
            content_hash=digest(content),
            **{"inode": next(_inodes), **values},
        )
        for path in paths
    ]


def planned(action: str = "trash", rules: list[dict[str, Any]] | None = None, **wish: Any) -> Plan:
    """A plan that was made in this process."""
    wanted = planning.checked(action, SHORTEST if rules is None else rules, **wish)
    plan = planning.plan_now(wanted, actor="otto")
    assert plan.status == "ready", plan.job and plan.job.error_message
    return plan


def rule_set(name: str = "tidy", rules: list[dict[str, Any]] | None = None) -> RuleSet:
    return RuleSet.objects.create(name=name, rules=SHORTEST if rules is None else rules)


def paths(plan: Plan, role: str, *, is_out: bool = False) -> list[str]:
    rows = PlanFile.objects.filter(plan=plan, role=role, is_out=is_out)
    return sorted(rows.values_list("relative_path", flat=True))


def item(plan: Plan, path: str) -> PlanFile:
    return PlanFile.objects.get(plan=plan, relative_path=path)


def warning(plan: Plan, code: str) -> dict[str, Any] | None:
    plan.refresh_from_db()
    found = [each for each in plan.warnings if each["code"] == code]
    return found[0] if found else None


def check(plan: Plan) -> Totals:
    """Totals and folders say what the rows say, and whatever goes has a keeper that stays."""
    plan.refresh_from_db()
    told = Totals(plan.group_count, plan.keep_count, plan.remove_count, plan.remove_bytes, plan.freed_bytes)
    assert told == totals_of(plan.pk, POLICY)
    going: dict[tuple[int, str], list[int]] = {}
    for row in PlanFile.objects.filter(plan=plan, role="remove").select_related("keeper"):
        assert row.keeper is not None
        assert (row.keeper.role, row.keeper.plan_id) == ("keep", plan.pk)
        assert bytes(row.keeper.content_hash) == bytes(row.content_hash)
        if not row.is_out:
            going.setdefault((row.library_id, row.folder), []).append(row.size_bytes)
    folders = {
        (row.library_id, row.folder): (row.remove_count, row.remove_bytes)
        for row in PlanFolder.objects.filter(plan=plan)
        if row.remove_count
    }
    assert folders == {key: (len(sizes), sum(sizes)) for key, sizes in going.items()}
    return told


def run_sql(sql: str, values: list[Any]) -> None:
    with connections[POLICY].cursor() as cursor:
        cursor.execute(sql, values)
