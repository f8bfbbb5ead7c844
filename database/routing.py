"""Two aliases, one database: `default` decides, `executor` carries out under the write whitelist."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

POLICY = "default"
EXECUTOR = "executor"


class OneSchemaRouter:
    """Both aliases show the same rows, so rows may be related across them; only `default` migrates."""

    def allow_relation(self, obj1: Model, obj2: Model, **hints: Any) -> bool:
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == POLICY
