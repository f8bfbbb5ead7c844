"""Look at everything and say what is wrong and what to do: `manage.py doctor`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections

import dedupfs_site.examining  # noqa: F401  registers the checks
from database.examining import Finding, Grade, examine, why_unreachable
from database.migrating import pending_migrations
from database.objects import install
from database.routing import POLICY

Found = list[tuple[str, Finding]]


class Command(BaseCommand):
    help = (
        "Check the database, its objects, leases, consumers, disk and rights. Exits 0 (well), 1 (warnings), 2 (errors)."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--fix", action="store_true", help="first put right what can be: triggers, indexes, counts")
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        fixed = _fix() if options["fix"] else []
        found = examine()
        if options["fix"] and (mended := _mend(found)):
            fixed += mended
            found = examine()
        worst = max((finding.grade for _, finding in found), default=Grade.OK)
        self.stdout.write(
            _as_json(found, fixed, worst) if options["json"] else "\n".join(_as_text(found, fixed, worst))
        )
        if worst:
            sys.exit(int(worst))


def _fix() -> list[str]:
    """Only on a database of this version: the objects need its tables."""
    connection = connections[POLICY]
    if why_unreachable(connection) is not None or pending_migrations(connection):
        return []
    return [each.name for each in install(connection)]


def _mend(found: Found) -> list[str]:
    """Have put right what the checks know how to."""
    mended = []
    for name, finding in found:
        if finding.mend is not None:
            finding.mend()
            mended.append(name)
    return mended


def _as_json(found: Found, fixed: list[str], worst: Grade) -> str:
    findings = [
        {"check": name, "grade": finding.grade.name.lower(), "message": finding.message, "remedy": finding.remedy}
        for name, finding in found
    ]
    return json.dumps({"status": worst.name.lower(), "findings": findings, "fixed": fixed})


def _as_text(found: Found, fixed: list[str], worst: Grade) -> Iterator[str]:
    """The worst last, where the eye is when the command ends."""
    for name in fixed:
        yield f"Put back in place: {name}"
    for grade in Grade:
        of_grade = [(name, finding) for name, finding in found if finding.grade == grade]
        if of_grade:
            yield f"\n{grade.name.capitalize() if grade else 'OK'}"
        for name, finding in of_grade:
            yield f"  {name}: {finding.message}"
            if finding.remedy:
                yield f"    → {finding.remedy}"
    yield f"\n{_SUMMARY[worst]}"


_SUMMARY = {
    Grade.OK: "Everything is well.",
    Grade.WARNING: "It works; the warnings want a look.",
    Grade.ERROR: "Something is broken; mend the errors, then run doctor again.",
}
