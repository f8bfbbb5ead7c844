"""What `manage.py` asks of the Python it is run by."""

from __future__ import annotations

import sqlite3

import pytest

import manage


def test_a_python_whose_sqlite_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "Connection", object)
    with pytest.raises(SystemExit, match=r"a Python with SQLite 3\.36 or newer; this one's is \d"):
        manage.main()
