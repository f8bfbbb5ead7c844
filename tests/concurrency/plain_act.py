"""`manage.py act`, on a kernel that can neither exchange two names nor rename without replacing."""

from __future__ import annotations

import sys

from django.core.management import execute_from_command_line

from trash import steps

if __name__ == "__main__":
    steps._function = lambda: None  # type: ignore[assignment]
    execute_from_command_line(["manage.py", "act", *sys.argv[1:]])
