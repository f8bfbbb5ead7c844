"""Stub."""


def drain(queue: str) -> None: ...


def sweep_all() -> None: ...
