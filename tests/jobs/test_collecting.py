"""Python's collector rests while jobs make many values, and works as before when the last of them has ended."""

from __future__ import annotations

import gc

import pytest

from jobs.collecting import little_collected


def test_it_is_as_before_when_jobs_that_overlapped_have_ended_in_any_order() -> None:
    before = gc.get_threshold()
    one, other = little_collected(), little_collected()
    one.__enter__()
    little = gc.get_threshold()
    assert little[0] > before[0]
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold() == little, "the other still works"
    other.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_it_is_as_before_when_a_job_fails() -> None:
    before = gc.get_threshold()
    with pytest.raises(RuntimeError), little_collected():
        raise RuntimeError
    assert gc.get_threshold() == before
