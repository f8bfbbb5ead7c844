"""How far an act is, in the middle of a large file."""

from __future__ import annotations

from concurrent.futures import Future, wait
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.trash.acts import authorised, carry_out, library
from trash import in_hand
from trash.clerk import Clerk
from trash.in_hand import InHand
from trash.models import Act
from trash.planned import Kept, Planned
from trash.showing import as_shown, shown

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_allowed")]
Patch = pytest.MonkeyPatch
SIZE = 24 << 20


def shown_while(patch: Patch, root: Path) -> tuple[Act, list[tuple[int, int]]]:
    """An act of one large file; what its page would have told at each step, as a share and as bytes."""
    library(root, {"a": b"x" * SIZE, "b/copy": b"x" * SIZE})
    act = authorised()
    told: list[tuple[int, int]] = []
    reach = InHand.reach

    def noted(self: InHand, number: int, bytes_read: int) -> None:
        reach(self, number, bytes_read)
        if self._shown is not None:
            self._shown.result()
            (each,) = as_shown(list(shown(Act.objects.filter(pk=act.pk))))
            told.append((each.share, each.bytes_met))

    patch.setattr(in_hand, "SHOW_SECONDS", 0.0)
    patch.setattr(InHand, "reach", noted)
    return carry_out(act), told


def test_bytes_are_told_while_a_large_file_is_read(tmp_path: Path, monkeypatch: Patch) -> None:
    act, told = shown_while(monkeypatch, tmp_path / "photos")
    assert act.status == "completed"
    assert told == sorted(told), "never backwards"
    assert [met for _, met in told if 0 < met < SIZE], "nor only at the end"
    assert (act.bytes_done, act.bytes_in_hand, act.seconds_in_hand) == (SIZE, 0, 0.0)


def test_what_was_in_hand_counts_for_nothing_once_it_has_ended(tmp_path: Path) -> None:
    library(tmp_path / "photos", {"a": b"one", "b/copy": b"one"})
    act = authorised()
    Act.objects.filter(pk=act.pk).update(status="cancelled", bytes_in_hand=2, seconds_in_hand=9.0)
    (each,) = as_shown(list(shown(Act.objects.filter(pk=act.pk))))
    assert (each.bytes_met, each.rate) == (0, None)


def test_files_before_the_one_in_hand_count_whole(tmp_path: Path, monkeypatch: Patch) -> None:
    kept = Kept(9, 9, 1, "keep", 10, 1, 1)
    files = [Planned(key, key, 1, "go", 10, 1, 1, "blake3", b"", "trash", kept, False) for key in range(3)]
    monkeypatch.setattr(in_hand, "SHOW_SECONDS", 0.0)
    written: list[int] = []
    with Clerk() as clerk:
        in_hands = InHand(SimpleNamespace(), SimpleNamespace(), clerk)  # type: ignore[arg-type]
        monkeypatch.setattr(in_hands, "_write", lambda size, _seconds: written.append(size))
        in_hands.begin(files)
        for number, bytes_read in ((0, 0), (0, 8), (2, 0), (2, 1000)):
            in_hands.reach(number, bytes_read)
            wait([in_hands._shown or Future()])
    assert written == [0, 4, 20, 30], "of a pair both files are read, and no file counts more than once"
