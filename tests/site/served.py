"""The product's own settings for a gunicorn that a test starts; static files are collected for the test."""

import os
from pathlib import Path

from dedupfs_site.settings import *  # noqa: F403

STATIC_ROOT = Path(os.environ["SERVED_STATIC_ROOT"])
