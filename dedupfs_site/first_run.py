"""What happens once in the life of an installation: the first admin, and the demo library with its end."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import Role, User
from dedupfs_site import demo
from libraries import adding, removing
from libraries.errors import NotThere, Refused
from libraries.models import LibraryRoot
from libraries.names import to_text
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
        _admin, password = User.objects.add_person(ADMIN, Role.ADMIN, actor=ACTOR)
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
    folder = demo_folder()
    if wanted:
        demo.build(folder)
    with transaction.atomic():
        made = wanted and _add_demo(folder)
        write_event("site", DEMO, "demo_decided", actor=ACTOR, title="Demo library", made=made)
    return made


def demo_folder() -> Path:
    return Path(settings.STATE_ROOT / "libraries" / DEMO)


def is_demo(library: LibraryRoot) -> bool:
    """Whether it is the one we made: by its folder, since a name can be changed."""
    return library.root_path == to_text(os.fsencode(os.path.realpath(demo_folder())))


def demo_library() -> LibraryRoot | None:
    return next((library for library in LibraryRoot.objects.kept() if is_demo(library)), None)


def remove_demo(*, actor: str) -> list[str]:
    """Take the demo library away, and its folder if it holds nothing but what we put there.

    Returns the names of what is not ours; then every file stays. Raises `Refused` while its trash holds anything.
    """
    library = demo_library()
    if library is None:
        raise NotThere(_("There is no demo library."))
    removing.remove(library.pk, actor=actor)
    kept = demo.take_away(demo_folder())
    write_event("site", DEMO, "demo_removed", actor=actor, title="Demo library", files_kept=len(kept))
    return kept


def bring_demo(*, actor: str) -> LibraryRoot:
    """Set the demo library up on request, also where it was removed or never wanted."""
    demo.build(demo_folder())
    library = adding.add(DEMO_NAME, str(demo_folder()), actor=actor, takes_young=True)
    write_event("site", DEMO, "demo_brought", actor=actor, title="Demo library")
    return library


def _add_demo(folder: Path) -> bool:
    """Nobody's first start fails for want of a demo."""
    try:
        adding.add(DEMO_NAME, str(folder), actor=ACTOR, takes_young=True)
    except Refused as refusal:
        logger.warning("The demo library is not set up: %s", refusal)
        return False
    return True
