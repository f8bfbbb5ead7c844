from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from database import normalising
from database.normalising import Unusable

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (None, None),
        ("2024-02-29 23:59:59", "2024-02-29 23:59:59"),
        ("2024-02-29 23:59:59.123", "2024-02-29 23:59:59.123"),
        ("2024-02-29 23:59:59.123456", "2024-02-29 23:59:59.123456"),
        ("2024-02-29T23:59:59", "2024-02-29 23:59:59"),
        ("2024-02-29T23:59:59Z", "2024-02-29 23:59:59"),
        ("2024-02-29T23:59:59.123456789Z", "2024-02-29 23:59:59.123456"),
        ("2024-03-01 01:29:59+01:30", "2024-02-29 23:59:59"),
        ("2024-02-29T18:59:59-0500", "2024-02-29 23:59:59"),
        ("2024-02-29 23:59:59.5", "2024-02-29 23:59:59.500000"),
        (" 2024-02-29 23:59:59 ", "2024-02-29 23:59:59"),
        ("2024-02-29", "2024-02-29 00:00:00"),
        ("0999-01-01T00:00:00Z", "0999-01-01 00:00:00"),
    ],
)
def test_timestamp_becomes_utc_text_with_a_space(written: Any, stored: Any) -> None:
    assert normalising.timestamp(written) == stored


@pytest.mark.parametrize(
    "written", ["", "yesterday", "2024-02-30 00:00:00", 1700000000, 1.5, b"2024", "0001-01-01T00:00+05:00"]
)
def test_timestamp_refuses_what_is_no_time(written: Any) -> None:
    with pytest.raises(Unusable):
        normalising.timestamp(written)


@given(st.datetimes(), st.sampled_from(["", ".000", ".000000"]))
def test_timestamp_leaves_its_own_forms_alone(when: Any, fraction: str) -> None:
    text = when.replace(microsecond=0).isoformat(sep=" ") + fraction
    assert normalising.timestamp(text) == text
    assert normalising.timestamp(text.replace(" ", "T") + "Z") == text[:19]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (None, (None, None)),
        ("", (None, None)),
        (bytes.fromhex(HEX), (None, bytes.fromhex(HEX))),
        (HEX.upper(), (None, bytes.fromhex(HEX))),
        (HEX.encode(), (None, bytes.fromhex(HEX))),
        (f"BLAKE3:{HEX}", ("blake3", bytes.fromhex(HEX))),
    ],
)
def test_digest_becomes_raw_bytes(written: Any, stored: Any) -> None:
    assert normalising.digest(written) == stored


@pytest.mark.parametrize("written", ["ab", HEX[:-1] + "g", f"md5:{HEX}", b"x" * 16, b"\xff" * 64, 5, f"{HEX[:63]}\n"])
def test_digest_refuses_what_has_another_length_or_alphabet(written: Any) -> None:
    with pytest.raises(Unusable):
        normalising.digest(written)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("00112233445566778899AABBCCDDEEFF", "00112233-4455-6677-8899-aabbccddeeff"),
        ("00112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeeff"),
        (bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("nightly-7", "nightly-7"),
        (12, "12"),
    ],
)
def test_job_id_becomes_a_uuid_with_dashes_where_it_is_one(written: Any, stored: str) -> None:
    assert normalising.job_id(written) == stored


@pytest.mark.parametrize("written", [None, "", "x" * 37, b"12345", 1.5])
def test_job_id_refuses_what_does_not_fit(written: Any) -> None:
    with pytest.raises(Unusable):
        normalising.job_id(written)


@pytest.mark.parametrize(
    ("written", "stored"),
    [(1, 1), (0, 0), ("TRUE", 1), (" f ", 0), ("1", 1), (None, None)],
)
def test_flag_becomes_one_or_nought(written: Any, stored: Any) -> None:
    assert normalising.flag(written) == stored


@pytest.mark.parametrize("written", [2, -1, "", "maybe", 0.5])
def test_flag_refuses_a_third_answer(written: Any) -> None:
    with pytest.raises(Unusable):
        normalising.flag(written)


@pytest.mark.parametrize(
    ("written", "stored"),
    [(2**64 - 1, -1), (str(2**63), -(2**63)), (2**63 - 1, 2**63 - 1), (-5, -5), (None, None), (1.8e19, None)],
)
def test_file_number_is_kept_as_a_signed_one(written: Any, stored: Any) -> None:
    assert normalising.file_number(written) == stored


@pytest.mark.parametrize("written", [1.5, "ten", float("inf"), 2.0**63, b"1x"])
def test_whole_refuses_what_is_no_whole_number(written: Any) -> None:
    with pytest.raises(Unusable):
        normalising.whole(written)


@pytest.mark.parametrize("written", ['{"a": 1}', "{}", '{"a": [1, {"b": null}]}'])
def test_payload_that_is_an_object_stays_to_the_letter(written: str) -> None:
    assert normalising.payload(written) == written


@pytest.mark.parametrize("written", ["", "[1]", "null", '"x"', "{'a': 1}", '{"a": NaN}', "{" * 100_000, "\x00"])
def test_payload_that_is_none_is_kept_inside_one(written: str) -> None:
    stored = normalising.payload(written)
    assert stored is not None
    assert json.loads(stored) == {"adopted_text": written}


@given(st.text())
def test_enum_takes_nothing_but_its_words(word: str) -> None:
    legal = frozenset({"pending", "running"})
    normalise = normalising.one_of(legal, is_nullable=False)
    if word.strip().lower() in legal:
        assert normalise(word) in legal
    else:
        with pytest.raises(Unusable):
            normalise(word)
