"""Who acts when a command is run by hand or by cron."""

from __future__ import annotations

import os
import pwd


def operating_system_user() -> str:
    """The name behind the process, not what its environment claims; a container may have none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def actor() -> str:
    """As the logbook's actor: "root (command line)"."""
    return f"{operating_system_user()} (command line)"
