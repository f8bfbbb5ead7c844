"""The JSON API, version 1: each room brings its own router."""

from __future__ import annotations

from ninja import NinjaAPI

api = NinjaAPI(title="DedupFS", version="1", urls_namespace="api")
