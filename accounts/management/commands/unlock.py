"""Open the login for somebody who typed too many wrong passwords."""

from __future__ import annotations

from typing import Any

from axes.models import AccessAttempt
from axes.utils import reset
from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.command_line import actor
from accounts.models import User


class Command(BaseCommand):
    help = "Forgets wrong passwords, so that a locked login works again at once."
    requires_system_checks: list[str] = []  # they load every page, which this needs not

    def add_arguments(self, parser: CommandParser) -> None:
        whom = parser.add_mutually_exclusive_group(required=True)
        whom.add_argument("username", nargs="?", help="whose login to unlock")
        whom.add_argument("--all", action="store_true", help="unlock every login")

    def handle(self, *_: Any, **options: Any) -> None:
        names = _waiting() if options["all"] else [options["username"]]
        for name in names:
            self._unlock(name)
        if not names:
            self.stdout.write("No wrong passwords are on record: nothing is locked.")

    def _unlock(self, name: str) -> None:
        user = User.objects.filter(username=name).first()
        forgotten = reset(username=name)
        if user is None and not forgotten:
            raise CommandError(f"There is nobody called {name}.")
        if user is not None and forgotten:
            user.write("unlocked", actor())
        self.stdout.write(_outcome(name, forgotten))


def _waiting() -> list[str]:
    """Everybody with a wrong password on record, by the names they typed."""
    return sorted(set(AccessAttempt.objects.exclude(username=None).values_list("username", flat=True)))


def _outcome(name: str, forgotten: int) -> str:
    if forgotten:
        return f"{name} can log in again: the wrong passwords are forgotten."
    return f"{name} was not locked: no wrong password is on record."
