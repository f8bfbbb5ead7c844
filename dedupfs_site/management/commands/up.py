"""`manage.py up`: everything, from a fresh folder to a running server, and its end."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import Error

from database.errors import DatabaseRoomError
from database.migrating import migrate_with_backup
from dedupfs_site import first_run, starting
from dedupfs_site.collecting import collect_static_files
from dedupfs_site.serving import serve


class Command(BaseCommand):
    help = "Prepare the database, start the web server and a consumer, look after both until Ctrl-C or SIGTERM."
    #: A check may need what is only looked at here; every refusal is to be one line.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-demo", action="store_true", help="don't set up the demo library on the first run")

    def handle(self, *_: Any, no_demo: bool, **__: Any) -> None:
        try:
            self._check_ground()
            with starting.state_lock(settings.STATE_ROOT):
                starting.check_port(settings.BIND, settings.PORT)
                self._prepare(no_demo=no_demo)
                serve(self._say)
        except (starting.CannotStart, DatabaseRoomError) as error:
            self._refuse(str(error))
        except KeyboardInterrupt:
            sys.exit(130)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _refuse(self, line: str) -> None:
        self.stderr.write(f"dedupfs: {line}")
        sys.exit(2)

    def _check_ground(self) -> None:
        mounts = starting.read_mounts()
        starting.check_state_folder(settings.STATE_ROOT)
        for file in starting.own_sqlite_files():
            starting.check_filesystem(file, mounts)

    def _prepare(self, *, no_demo: bool) -> None:
        try:
            migrate_with_backup(self._say)  # refuses a database that is newer than the code
        except Error as error:
            reason = str(error).strip().splitlines()[0]
            raise starting.CannotStart(f"the database can't be used: {reason}") from error
        collect_static_files()
        password = first_run.create_first_admin()
        if password:
            self._tell_password(password)
        if first_run.decide_demo(wanted=not no_demo):
            self._say("A small demo library was set up; remove it whenever you like, it does not come back.")

    def _tell_password(self, password: str) -> None:
        """Once, on the terminal. A system journal keeps what it is given, so it is not given the password."""
        if _is_journal():
            self._say(f"The first user is {first_run.ADMIN}. Choose its password: manage.py changepassword admin")
            return
        self._say("\nThe first user. The password is shown only now; you choose your own at the first login.\n")
        self._say(f"    user      {first_run.ADMIN}\n    password  {password}\n\n")


def _is_journal() -> bool:
    """systemd names the stream it reads by device and inode; a redirect elsewhere has other ones."""
    journal = os.environ.get("JOURNAL_STREAM")
    if not journal:
        return False
    stream = os.fstat(sys.stdout.fileno())
    return journal == f"{stream.st_dev}:{stream.st_ino}"
