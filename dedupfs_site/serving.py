"""The two programs that make up a running DedupFS, and how to reach them."""

from __future__ import annotations

import http.client
import logging
import socket
import sys
from collections.abc import Callable

from django.conf import settings
from django.db import Error, connections

from dedupfs_site.supervising import Child, Supervisor
from logbook.models import write_event

logger = logging.getLogger(__name__)

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where to ask when it listens everywhere


def serve(say: Callable[[str], None]) -> None:
    """Run the web server and a consumer until a signal asks to stop."""
    connections.close_all()
    _hurry_database()
    Supervisor(
        web=Child("web", web_command(), settings.BASE_DIR),
        consumer=Child("consumer", consumer_command(), settings.BASE_DIR),
        stop_seconds=settings.STOP_SECONDS,
        answers=answers,
        ready=lambda: say(f"DedupFS is ready at {address()} (Ctrl-C stops it)"),
        note=note_restart,
    ).run()


def web_command() -> list[str]:
    """gunicorn: one process with threads. Which proxy headers count is for Django's settings alone to say."""
    host = settings.BIND.strip("[]")
    return [
        *(
            sys.executable,
            "-m",
            "gunicorn",
            "dedupfs_site.wsgi",
            "--worker-class",
            "gthread",
            "--workers",
            "1",
        ),
        *("--bind", f"[{host}]:{settings.PORT}" if ":" in host else f"{host}:{settings.PORT}"),
        *("--threads", str(settings.WEB_THREADS), "--graceful-timeout", str(settings.STOP_SECONDS)),
        *("--log-level", "warning", "--no-control-socket", "--forwarded-allow-ips", ""),
    ]


def consumer_command() -> list[str]:
    return [sys.executable, str(settings.BASE_DIR / "manage.py"), "run_huey"]


def address() -> str:
    """What to type into a browser."""
    if settings.PUBLIC_URL.host:
        return f"{settings.PUBLIC_URL.origin}{settings.PUBLIC_URL.prefix}/"
    host = settings.BIND.strip("[]")
    if host in EVERYWHERE:
        host = socket.gethostname()
    return f"http://[{host}]:{settings.PORT}/" if ":" in host else f"http://{host}:{settings.PORT}/"


def answers() -> bool:
    """Whether the web server answers on /health; what it says there is not looked at."""
    host = settings.BIND.strip("[]")
    connection = http.client.HTTPConnection(EVERYWHERE.get(host, host), settings.PORT, timeout=2)
    try:
        connection.request("GET", "/health")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def note_restart(event_type: str, ended: str | int) -> bool:
    """Write into the logbook that a child died and runs again; False where the database can't be."""
    try:
        write_event("supervisor", socket.gethostname(), event_type, exit=ended)
    except Error as error:
        logger.warning("A restart could not be written into the logbook yet: %s", error)
        return False
    finally:
        connections.close_all()
    return True


def _hurry_database() -> None:
    """A supervisor that waits long for a locked or vanished database would not hear its signals."""
    for alias in connections:
        chosen = connections[alias].settings_dict
        chosen["OPTIONS"]["timeout" if connections[alias].vendor == "sqlite" else "connect_timeout"] = 2
