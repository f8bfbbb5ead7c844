"""Every address the project has, from its own URL configuration, with its parameters filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver, resolve
from django.urls.resolvers import RoutePattern

#: A value for each kind of parameter that a route can have; a kind that is missing here fails the walk.
BY_CONVERTER = {
    "IntConverter": "1",
    "StringConverter": "x",
    "SlugConverter": "x",
    "PathConverter": "x/y",
    "UUIDConverter": "6f1c3b1e-5a86-4d4c-9d0e-0f0e3a3f5b11",
}
_PARAMETER = re.compile(r"<(?:[^>:]+:)?([^>]+)>")
_GROUP = re.compile(r"\(\?P<(\w+)>([^()]*)\)")


@dataclass(frozen=True)
class Found:
    """One entry of the URL configuration."""

    path: str
    name: str
    is_api: bool


def every_address(values: dict[str, str]) -> list[Found]:
    """Walk the whole tree. `values` gives parameters by name, so that rows which exist are asked for."""
    found: list[Found] = []
    for entry, address in _walk(get_resolver(), "/", [], [], values):
        # What was filled in must lead here, unless an entry before this one takes the same path.
        is_taken = any(earlier.path == address.path for earlier in found)
        assert is_taken or resolve(address.path).func is entry.callback, address
        found.append(address)
    return found


def _walk(
    resolver: URLResolver, above: str, names: list[str], apps: list[str], values: dict[str, str]
) -> Iterator[tuple[URLPattern, Found]]:
    for entry in resolver.url_patterns:
        path = above + _filled(entry.pattern, values)
        if isinstance(entry, URLResolver):
            inner = [*names, entry.namespace] if entry.namespace else names
            yield from _walk(entry, path, inner, [*apps, entry.app_name or ""], values)
        else:
            yield entry, Found(path, ":".join([*names, entry.name or "-"]), "ninja" in apps)


def _filled(pattern: Any, values: dict[str, str]) -> str:
    if isinstance(pattern, RoutePattern):
        kinds = {name: type(converter).__name__ for name, converter in pattern.converters.items()}
        return _PARAMETER.sub(lambda found: values.get(found[1]) or BY_CONVERTER[kinds[found[1]]], str(pattern))
    # Of Django's own: the admin's list of its rooms, "^(?P<app_label>jobs|accounts)/$", and what is nowhere else.
    return _GROUP.sub(lambda found: found[2].split("|")[0].replace(".*", "x"), str(pattern)).strip("^$")
