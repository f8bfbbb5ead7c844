"""What is compiled from C has to be there in tests: without it half of them would say nothing."""

from __future__ import annotations

from libraries import native

NEEDS_COMPILER = "`make install-dev` compiles it, and needs a C compiler for that"


def require_native(name: str, version: int) -> None:
    assert native.library(name, version), NEEDS_COMPILER
