"""All settings, grouped by what they are about. `docs/operating/settings.md` describes each variable."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url
from csp.constants import NONE, SELF

from dedupfs_site import environment as env
from dedupfs_site import secret_key
from dedupfs_site.addresses import own_names, parse_bind, parse_hosts, parse_origins, parse_public_url

# --- Where things are -------------------------------------------------------------------------------------
BASE_DIR = Path(__file__).resolve().parent.parent
STATE_ROOT = env.folder("DEDUPFS_STATE_ROOT", str(BASE_DIR / "state"))
THUMBNAIL_ROOT = STATE_ROOT / "thumbs"
LIBRARIES_ROOTS = env.folders("DEDUPFS_LIBRARIES_ROOT", str(STATE_ROOT / "libraries"))
DEBUG = env.flag("DEDUPFS_DEBUG")
SECRET_KEY = secret_key.choose(env.text("DEDUPFS_SECRET_KEY"), STATE_ROOT)

# --- How it is reached ------------------------------------------------------------------------------------
BIND = parse_bind(env.text("DEDUPFS_BIND", "127.0.0.1"))
PORT = env.whole("PORT", 8000, least=1, most=65535)
PUBLIC_URL = parse_public_url(env.text("DEDUPFS_PUBLIC_URL"))
ALLOWED_HOSTS = [
    *own_names(BIND),
    *([PUBLIC_URL.host] if PUBLIC_URL.host else []),
    *parse_hosts(env.words("DEDUPFS_ALLOWED_HOSTS")),
]
CSRF_TRUSTED_ORIGINS = [
    *([PUBLIC_URL.origin] if PUBLIC_URL.host else []),
    *parse_origins(env.words("DEDUPFS_TRUSTED_ORIGINS")),
]
TRUST_PROXY_HEADERS = env.flag("DEDUPFS_TRUST_PROXY_HEADERS", default=PUBLIC_URL.is_tls)
if TRUST_PROXY_HEADERS:
    USE_X_FORWARDED_HOST = True
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
FORCE_SCRIPT_NAME = PUBLIC_URL.prefix or None
WEB_THREADS = env.whole("DEDUPFS_WEB_THREADS", 8, least=1, most=64)

# --- Applications -----------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "dedupfs_site",
    "trash",
    "duplicates",
    "thumbnails",
    "libraries",
    "jobs",
    "accounts",
    "logbook",
    "frame",
    "database",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "axes",
    "csp",
    "ninja",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "frame.packing.PageGZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.middleware.LoginOrTokenMiddleware",
    "accounts.middleware.FirstPasswordMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "frame.zones.BrowserZoneMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "dedupfs_site.urls"
WSGI_APPLICATION = "dedupfs_site.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dedupfs_site.navigation.frame",
            ],
        },
    },
]

# --- Database ---------------------------------------------------------------------------------------------
DATABASE_URL = env.text("DATABASE_URL")
SQLITE_BUSY_SECONDS = env.whole("DEDUPFS_SQLITE_BUSY_SECONDS", 20, least=1, most=600)
#: The alias whose connection may write only what an executor may write (jobs/whitelist.py).
EXECUTOR_ROLE = env.text("DEDUPFS_EXECUTOR_ROLE", "dedupfs_executor")


def _database(*, is_executor: bool) -> dict[str, Any]:
    try:
        # An executor's connection carries its scratch tables, so it is never closed for its age.
        age = None if is_executor else 600
        url = DATABASE_URL or "sqlite:///in-the-state-folder"
        settings: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=age, conn_health_checks=True))
    except (ValueError, KeyError) as error:
        raise env.SettingError(f"DATABASE_URL can't be understood: {type(error).__name__}") from None
    if not DATABASE_URL:
        settings["NAME"] = str(STATE_ROOT / "dedupfs.sqlite3")  # as it is: a folder's name may hold %, ? and #
    options = settings.setdefault("OPTIONS", {})
    if settings["ENGINE"] == "django.db.backends.sqlite3":
        options["timeout"] = SQLITE_BUSY_SECONDS
        options["transaction_mode"] = "IMMEDIATE"
        options["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        if is_executor:
            # A first scan touches every page of the digests' index with each batch: they should not be copied into the
            # file after every commit.
            options["init_command"] += (
                "PRAGMA cache_size=-32768; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=32768;"
            )
    elif is_executor:
        options["assume_role"] = EXECUTOR_ROLE
    settings["TEST"] = {"MIRROR": "default"} if is_executor else {}
    return settings


DATABASES = {"default": _database(is_executor=False), "executor": _database(is_executor=True)}
DATABASE_ROUTERS = ["database.routing.OneSchemaRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Background work --------------------------------------------------------------------------------------
LEASE_SECONDS = env.whole("DEDUPFS_LEASE_SECONDS", 300, least=2, most=86400)
STALL_SECONDS = env.whole("DEDUPFS_STALL_SECONDS", 600, least=1, most=86400)
JOB_ATTEMPTS = env.whole("DEDUPFS_JOB_ATTEMPTS", 5, least=1, most=100)
CONSUMER_WORKERS = env.whole("DEDUPFS_CONSUMER_WORKERS", 4, least=1, most=32)
HEARTBEAT_SECONDS = env.whole("DEDUPFS_HEARTBEAT_SECONDS", 10, least=1, most=600)
SWEEP_SECONDS = env.whole("DEDUPFS_SWEEP_SECONDS", 15, least=1, most=3600)
STOP_SECONDS = env.whole("DEDUPFS_STOP_SECONDS", 30, least=1, most=600)
#: Reader processes of one scan or hash job; 0 takes four for each core, at most eight.
READERS = env.whole("DEDUPFS_READERS", 0, least=0, most=64)
#: A first scan writes so many files in one transaction; more is quicker with millions of them and takes memory.
SCAN_BATCH_FILES = env.whole("DEDUPFS_SCAN_BATCH_FILES", 80_000, least=1, most=1_000_000)
HASH_ALGORITHM = env.choice("DEDUPFS_HASH_ALGORITHM", "blake3", ("blake3", "sha256"))
#: A batch of files that nobody has renewed for so long may be hashed by another consumer.
HASH_CLAIM_SECONDS = env.whole("DEDUPFS_HASH_CLAIM_SECONDS", 300, least=2, most=86400)
#: When a larger share of a library's files is gone at once, a person is asked first.
MISSING_PERCENT = env.whole("DEDUPFS_MISSING_PERCENT", 25, least=0, most=100)
#: How often consumers look whether the libraries' disks are there.
LOOK_SECONDS = env.whole("DEDUPFS_LOOK_SECONDS", 60, least=1, most=86400)
SCAN_HISTORY_HOURS = env.whole("DEDUPFS_SCAN_HISTORY_HOURS", 24, least=1, most=8760)
SCAN_REQUEST_DAYS = env.whole("DEDUPFS_SCAN_REQUEST_DAYS", 30, least=1, most=3650)
#: A file that changed so lately may still be written; it is never planned.
YOUNG_HOURS = env.whole("DEDUPFS_YOUNG_HOURS", 24, least=0, most=8760)
#: Removing for good (deleting, emptying the trash) needs this beside the switch on the settings page.
ALLOW_REAL_DELETE = env.flag("DEDUPFS_ALLOW_REAL_DELETE")
#: Between authorising and acting there is time to stop it.
ACT_GRACE_SECONDS = env.whole("DEDUPFS_ACT_GRACE_SECONDS", 60, least=0, most=86400)
#: Where so many files are to be acted on, a process of its own does it beside the one that keeps the records.
ACT_HAND_FILES = env.whole("DEDUPFS_ACT_HAND_FILES", 1_000, least=1, most=1_000_000_000)
#: So many files at the most are acted on between two records of what was done; more is quicker.
ACT_BATCH_FILES = env.whole("DEDUPFS_ACT_BATCH_FILES", 20_000, least=1, most=100_000)
#: How many thumbnails of each media type may be rendered at the same time, over all consumers.
THUMBNAIL_CONCURRENCY = {
    "image": env.whole("DEDUPFS_THUMBNAIL_IMAGES", 2, least=1, most=64),
    "video": env.whole("DEDUPFS_THUMBNAIL_VIDEOS", 1, least=1, most=64),
}
#: Thumbnails that wait or are rendered; past it a request is refused.
THUMBNAIL_CAPACITY = env.whole("DEDUPFS_THUMBNAIL_CAPACITY", 50_000, least=1, most=10_000_000)
#: What thumbnails may read of the libraries, in bytes a second over all consumers; 0 is no limit.
THUMBNAIL_IO_BYTES = env.whole("DEDUPFS_THUMBNAIL_IO_MB", 0, least=0, most=100_000) << 20
#: A picture, and a video, may take so long and so much memory; what takes more is that row's error.
THUMBNAIL_SECONDS = {
    "image": env.whole("DEDUPFS_THUMBNAIL_IMAGE_SECONDS", 20, least=1, most=3600),
    "video": env.whole("DEDUPFS_THUMBNAIL_VIDEO_SECONDS", 30, least=1, most=3600),
}
THUMBNAIL_MEMORY_BYTES = env.whole("DEDUPFS_THUMBNAIL_MEMORY_MB", 768, least=128, most=65_536) << 20
#: A picture of more pixels is not decoded.
THUMBNAIL_PIXELS = env.whole("DEDUPFS_THUMBNAIL_MEGAPIXELS", 200, least=1, most=10_000) * 1_000_000
#: All thumbnails together take so much; then those go that nobody has looked at for longest. 0 is no limit.
THUMBNAIL_CACHE_BYTES = env.whole("DEDUPFS_THUMBNAIL_CACHE_MB", 4096, least=0, most=100_000_000) << 20
#: A group that dissolved may come back with the next scan: its thumbnails are kept so long.
THUMBNAIL_CLEANUP_HOURS = env.whole("DEDUPFS_THUMBNAIL_CLEANUP_HOURS", 24, least=0, most=8760)
#: An original that a disk doesn't deliver for so long is given up.
ORIGINAL_SECONDS = env.whole("DEDUPFS_ORIGINAL_SECONDS", 20, least=1, most=3600)
#: SQLite's write-ahead log is written back when it has grown past this; 0 leaves that to people.
WAL_BYTES = env.whole("DEDUPFS_WAL_MB", 256, least=0, most=1_000_000) << 20
WAL_MODES = env.words("DEDUPFS_WAL_MODES", "passive,restart")
for word in set(WAL_MODES) - {"passive", "restart", "truncate"}:
    raise env.SettingError(f"DEDUPFS_WAL_MODES: {word!r}: write some of passive, restart, truncate, with commas")
WAL_INTERVAL_SECONDS = env.whole("DEDUPFS_WAL_INTERVAL_SECONDS", 900, least=0, most=604_800)
HUEY_URL = env.text("HUEY_URL")
HUEY: dict[str, Any] = {
    "name": "dedupfs",
    # Huey takes DEBUG for this when it is left out, and would then run tasks inside the web request.
    "immediate": False,
    "results": False,
    "consumer": {
        "workers": CONSUMER_WORKERS,
        "worker_type": "thread",
        "initial_delay": 0.05,
        "max_delay": 0.25,
        "graceful_signal": "TERM",
        "shutdown_timeout": STOP_SECONDS,
    },
}
if HUEY_URL:
    HUEY |= {"huey_class": "huey.RedisHuey", "url": HUEY_URL}
else:
    HUEY |= {"huey_class": "huey.SqliteHuey", "filename": str(STATE_ROOT / "huey.sqlite3")}

# --- Doors ------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ("username",)},
    },
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "accounts:login"
CSRF_FAILURE_VIEW = "frame.refusals.csrf_failure"
AXES_FAILURE_LIMIT = env.whole("DEDUPFS_LOGIN_ATTEMPTS", 5, least=1, most=1000)
AXES_COOLOFF_TIME = timedelta(minutes=env.whole("DEDUPFS_LOGIN_COOLOFF_MINUTES", 5, least=1, most=1440))
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "accounts.doorkeeping.locked"
AXES_CLIENT_IP_CALLABLE = "accounts.doorkeeping.client_address"
# Knocking on a locked door doesn't count anew: a script with an old password must not lock its owner out.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False

SESSION_COOKIE_NAME = "dedupfs_session"
CSRF_COOKIE_NAME = "dedupfs_csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.is_tls
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = f"{PUBLIC_URL.prefix}/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 60 * 60 * 24 * env.whole("DEDUPFS_SESSION_DAYS", 14, least=1, most=365)
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

# --- Language, time, files --------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
USE_I18N = True
TIME_ZONE = env.text("DEDUPFS_TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = STATE_ROOT / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# --- Logging ----------------------------------------------------------------------------------------------
LOG_LEVEL = env.choice("DEDUPFS_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "huey": {"handlers": ["console"], "level": LOG_LEVEL, "propagate": False},
        "axes": {"level": "WARNING"},  # it writes four lines for each login otherwise
        "django.security.DisallowedHost": {"level": "ERROR"},
    },
}
