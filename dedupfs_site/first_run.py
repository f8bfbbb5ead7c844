"""What happens once in the life of an installation: the first admin, and whether there is a demo library."""

from __future__ import annotations

import logging
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.models import Role, User
from dedupfs_site import demo
from libraries import adding
from libraries.errors import Refused
from libraries.models import LibraryRoot
from logbook.models import LogbookItem, write_event

logger = logging.getLogger(__name__)
ADMIN = "admin"
ACTOR = "manage.py up"
DEMO = "demo"
DEMO_NAME = "Demo"


def create_first_admin() -> str | None:
    """Where nobody can log in yet, create the admin and return the password; it is kept nowhere else."""
    if User.objects.exists():
        return None
    try:
        _, password = User.objects.add_person(ADMIN, Role.ADMIN, actor=ACTOR)
    except IntegrityError:
        return None  # another machine on the same database was first
    return password


def decide_demo(*, wanted: bool) -> bool:
    """On the very first run set up the demo library, or note that it is not wanted; tell which.

    The logbook remembers the decision, so a demo that was removed never returns.
    """
    if LogbookItem.objects.filter(item_type="site", subject_id=DEMO).exists():
        return False
    wanted = wanted and not LibraryRoot.objects.exists()
    folder = settings.STATE_ROOT / "libraries" / DEMO
    if wanted:
        demo.build(folder)
    with transaction.atomic():
        made = wanted and _add_demo(folder)
        write_event("site", DEMO, "demo_decided", actor=ACTOR, title="Demo library", made=made)
    return made


def _add_demo(folder: Path) -> bool:
    """Nobody's first start fails for want of a demo."""
    try:
        adding.add(DEMO_NAME, str(folder), actor=ACTOR)
    except Refused as refusal:
        logger.warning("The demo library is not set up: %s", refusal)
        return False
    return True
