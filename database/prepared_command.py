"""The base of commands that may be the first thing somebody runs: a database that isn't there yet is made."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connection

from database.migrating import migrate_with_backup


class PreparedCommand(BaseCommand):
    """Makes a new database ready. One that is there is left alone: bringing it to a new version is `migrate`'s."""

    requires_system_checks: list[str] = []  # they load every page, which such a command needs not

    def execute(self, *args: Any, **options: Any) -> str | None:
        if connection.vendor == "sqlite":
            settings.STATE_ROOT.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Asked by name alone: the graph of migrations takes longer to load than most commands to run.
        if "django_migrations" not in connection.introspection.table_names():
            migrate_with_backup(lambda _line: None)
            self.stderr.write("A new database was made.")
        return super().execute(*args, **options)
