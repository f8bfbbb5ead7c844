"""Settings from the environment: what is taken, and what is refused with the variable's name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dedupfs_site import environment as env
from tests.conftest import ROOT
from tests.site.running import environment

NAME = "DEDUPFS_OF_A_TEST"


@pytest.fixture(autouse=True)
def _leave_no_declaration() -> Iterator[None]:
    yield
    env.DECLARED.pop(NAME, None)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda value: monkeypatch.setenv(NAME, value)


@pytest.mark.parametrize("word", ["1", "true", "YES", " on "])
def test_flag_is_on(word: str, given: Callable[[str], None]) -> None:
    given(word)
    assert env.flag(NAME) is True


@pytest.mark.parametrize("word", ["0", "false", "No", "off", ""])
def test_flag_is_off(word: str, given: Callable[[str], None]) -> None:
    given(word)
    assert env.flag(NAME, default=True) is False


@pytest.mark.parametrize(
    ("read", "value", "reason"),
    [
        (lambda: env.flag(NAME), "maybe", "write 1 or 0"),
        (lambda: env.whole(NAME, 5, least=1, most=9), "10", "write a whole number from 1 to 9"),
        (lambda: env.whole(NAME, 5, least=1, most=9), "-1", "write a whole number from 1 to 9"),
        (lambda: env.whole(NAME, 5, least=1, most=9), "five", "write a whole number from 1 to 9"),
        (lambda: env.whole(NAME, 5, least=1, most=9), "", "write a whole number from 1 to 9"),
        (lambda: env.choice(NAME, "a", ("a", "b")), "c", "write one of a, b"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_the_way_out(
    read: Callable[[], Any], value: str, reason: str, given: Callable[[str], None]
) -> None:
    given(value)
    with pytest.raises(env.SettingError) as refusal:
        read()
    assert str(refusal.value) == f"{NAME}={value!r}: {reason}"


def test_lists_and_folders_are_taken_apart(given: Callable[[str], None]) -> None:
    given(" a, b ,,c")
    assert env.words(NAME) == ["a", "b", "c"]
    given("/srv/one:/srv/two:")
    assert env.folders(NAME, "") == [Path("/srv/one"), Path("/srv/two")]
    given("~/x")
    assert env.folder(NAME, "/") == Path("~/x").expanduser()


def test_what_is_not_set_has_its_default_and_is_declared() -> None:
    assert env.whole(NAME, 5, least=1, most=9) == 5
    assert env.DECLARED[NAME] == env.Declared(NAME, "5")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PORT", "http"),
        ("DEDUPFS_PUBLIC_URL", "nas/dedupfs"),
        ("DATABASE_URL", "wat://nowhere"),
        ("DEDUPFS_DEBUG", "?"),
        ("DEDUPFS_WAL_MODES", "passive,vacuum"),
    ],
)
def test_a_command_answers_a_bad_setting_with_one_line(variable: str, value: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "check"],
        env=environment(tmp_path / "state", **{variable: value}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"dedupfs: {variable}")
    assert answer.stderr.count("\n") == 1
