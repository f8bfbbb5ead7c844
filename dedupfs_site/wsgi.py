"""The WSGI application that gunicorn serves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import set_script_prefix

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dedupfs_site.settings")

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class BelowPrefix:
    """Serves below a sub-path, whether the proxy in front takes that path off or leaves it on."""

    def __init__(self, inner: Wsgi, prefix: str) -> None:
        self.inner = inner
        self.prefix = prefix

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == self.prefix or path.startswith(f"{self.prefix}/"):
            environ = {**environ, "PATH_INFO": path.removeprefix(self.prefix) or "/"}
        return self.inner(environ, start_response)


def make_application() -> Wsgi:
    prefix: str = settings.PUBLIC_URL.prefix
    # The address of static files is worked out once, when WhiteNoise first looks: the prefix comes before.
    set_script_prefix(f"{prefix}/")
    inner: Wsgi = get_wsgi_application()
    return BelowPrefix(inner, prefix) if prefix else inner


application = make_application()
