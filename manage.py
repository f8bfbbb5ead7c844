#!/usr/bin/env python
"""The command line of DedupFS: `manage.py help` lists what it can do."""

import os
import sys

OLDEST = (3, 11)


def main() -> None:
    if sys.version_info < OLDEST:
        sys.exit(f"DedupFS needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {sys.version.split()[0]}.")
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
