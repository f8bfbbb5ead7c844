"""The product's settings on throw-away state: a file database, since executors need a second connection to it."""

import os
import tempfile
from pathlib import Path

_WORK = Path(tempfile.mkdtemp(prefix="dedupfs-tests-"))
os.environ.setdefault("DEDUPFS_STATE_ROOT", str(_WORK))
os.environ.setdefault("DEDUPFS_SECRET_KEY", "for-tests-only-" + "x" * 50)

from dedupfs_site.settings import *  # noqa: E402, F403
from dedupfs_site.settings import DATABASES, INSTALLED_APPS, STORAGES  # noqa: E402

INSTALLED_APPS = ["tests.steps", *INSTALLED_APPS]
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["TEST"]["NAME"] = str(_WORK / "test.sqlite3")
for _database in DATABASES.values():
    _database["CONN_MAX_AGE"] = 0
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
