"""The product's settings on throw-away state: a file database, since executors need a second connection to it."""

import atexit
import os
import shutil
import tempfile

if "DEDUPFS_TESTS" not in os.environ:
    # The first process of a test run: whatever state folder is set belongs to somebody's installation.
    os.environ["DEDUPFS_TESTS"] = "1"
    os.environ["DEDUPFS_STATE_ROOT"] = tempfile.mkdtemp(prefix="dedupfs-tests-")
    atexit.register(shutil.rmtree, os.environ["DEDUPFS_STATE_ROOT"], ignore_errors=True)
# Each of several workers has a state folder of its own, since only one process a folder acts on files. Their children
# are told the folder, and keep it.
if os.environ.get("PYTEST_XDIST_WORKER", os.environ["DEDUPFS_TESTS"]) != os.environ["DEDUPFS_TESTS"]:
    os.environ["DEDUPFS_TESTS"] = os.environ["PYTEST_XDIST_WORKER"]
    os.environ["DEDUPFS_STATE_ROOT"] += "/" + os.environ["DEDUPFS_TESTS"]
    os.mkdir(os.environ["DEDUPFS_STATE_ROOT"], 0o700)
os.environ.setdefault("DEDUPFS_SECRET_KEY", "for-tests-only-" + "x" * 50)

from dedupfs_site.settings import *  # noqa: F403
from dedupfs_site.settings import DATABASES, INSTALLED_APPS, STATE_ROOT, STATIC_ROOT, STORAGES

INSTALLED_APPS = [*INSTALLED_APPS, "tests.steps"]  # after the rooms: its handlers stand in for theirs
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["TEST"]["NAME"] = str(STATE_ROOT / "test.sqlite3")
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns where it is missing, and warnings are errors
PASSWORD_HASHERS = ["tests.hashing.QuickArgon2"]
