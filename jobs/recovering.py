"""Taking back what lost its worker, in every table that has leases, when somebody asks for it."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from jobs.lease import LeasedModel, LeasedQuerySet
from logbook.models import write_event


def recover_all(*, actor: str) -> dict[str, int]:
    """Take back every row whose lease ran out; return how many of which table."""
    return {model._meta.db_table: recover(model._default_manager.all(), actor=actor) for model in leased_models()}  # type: ignore[arg-type]


def recover(rows: LeasedQuerySet[Any], *, actor: str) -> int:
    """Take back those of `rows` whose lease ran out, and note who asked."""
    count = rows.recover()
    write_event("queue", rows.model._meta.db_table, "recover", actor=actor, recovered=count)
    return count


def leased_models() -> list[type[LeasedModel]]:
    """Every leased table, whichever room it belongs to."""
    found = [model for model in apps.get_models() if issubclass(model, LeasedModel)]
    return sorted(found, key=lambda model: model._meta.db_table)
