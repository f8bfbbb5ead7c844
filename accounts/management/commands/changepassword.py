"""`changepassword`, told of our own ways: whoever sets a password on the machine itself need not choose again."""

from __future__ import annotations

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword

from accounts.command_line import actor
from accounts.models import User


class Command(changepassword.Command):
    requires_system_checks: list[str] = []  # they load every page, which this needs not

    def handle(self, *args: Any, **options: Any) -> str | None:
        said = super().handle(*args, **options)
        User.objects.get(username=options["username"] or getpass.getuser()).note_password_change(actor=actor())
        return said
