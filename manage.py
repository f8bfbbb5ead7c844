#!/usr/bin/env python
"""The command line of DedupFS: `manage.py help` lists what it can do."""

import os
import sqlite3
import sys

OLDEST = (3, 11)


def main() -> None:
    if sys.version_info < OLDEST:
        sys.exit(f"DedupFS needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {sys.version.split()[0]}.")
    if not hasattr(sqlite3.Connection, "deserialize"):
        sys.exit(f"DedupFS needs a Python with SQLite 3.36 or newer; this one's is {sqlite3.sqlite_version}.")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dedupfs_site.settings")
    from django.core.management import execute_from_command_line

    from dedupfs_site.environment import SettingError

    try:
        execute_from_command_line(sys.argv)
    except SettingError as error:
        print(f"dedupfs: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
