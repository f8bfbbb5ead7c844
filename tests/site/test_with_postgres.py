"""Who runs the PostgreSQL of the tests."""

from __future__ import annotations

import os
import pwd

import pytest

from tests.with_postgres import as_server_user


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The users that this machine has, for this test."""
    names: list[str] = []

    def getpwnam(name: str) -> pwd.struct_passwd:
        if name not in names:
            raise KeyError(f"getpwnam(): name not found: {name!r}")
        return pwd.struct_passwd((name, "x", 65534, 65534, "", "/", "/bin/false"))

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    return names


@pytest.mark.parametrize("there", [["postgres"], ["postgres", "nobody"], ["nobody"]])
def test_the_server_runs_as_a_user_that_is_there(users: list[str], there: list[str]) -> None:
    users += there
    assert as_server_user(["initdb"]) == ["runuser", "-u", there[0], "--", "initdb"]


def test_without_any_such_user_it_says_what_to_do(users: list[str]) -> None:
    with pytest.raises(SystemExit, match="adduser --system postgres"):
        as_server_user(["initdb"])


def test_without_root_it_runs_as_whoever_asks(users: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert as_server_user(["initdb"]) == ["initdb"]
