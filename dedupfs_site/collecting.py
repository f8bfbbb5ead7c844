"""Static files, brought together for the web server; nothing is done when nothing changed."""

from __future__ import annotations

import fcntl
import hashlib
from importlib.metadata import version
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from dedupfs_site.starting import CannotStart


def collect_static_files() -> bool:
    """Collect into STATIC_ROOT if a file, its storage or a package changed since; say whether it was done.

    Several servers may share one copy of the code, so one collects and the others wait for it.
    """
    root = Path(settings.STATIC_ROOT)
    stamp = root / ".collected"
    wanted = _digest()
    if _read(stamp) == wanted:
        return False
    try:
        root.mkdir(exist_ok=True)
        with (root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _read(stamp) == wanted:
                return False
            call_command("collectstatic", interactive=False, verbosity=0)
            stamp.write_text(wanted, encoding="ascii")
    except OSError as error:
        raise CannotStart(
            f"static files can't be collected in {root} ({error.strerror}): make it writable for this user"
        ) from None
    return True


def _read(stamp: Path) -> str:
    return stamp.read_text(encoding="ascii") if stamp.exists() else ""


def _digest() -> str:
    """Stands for all that goes into STATIC_ROOT; sizes and times are enough, and cost milliseconds."""
    parts = [settings.STORAGES["staticfiles"]["BACKEND"], version("django"), version("whitenoise")]
    for finder in get_finders():
        for path, storage in finder.list([]):
            stat = Path(storage.path(path)).stat()
            parts.append(f"{path} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()
