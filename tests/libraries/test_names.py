"""Names are bytes: stored and shown without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libraries.names import to_bytes, to_display, to_text

names = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=40).map(lambda text: text.encode(errors="surrogatepass")),
    st.text("\uf780\uf7ff\uf77f\uf800é~$\n", max_size=20).map(str.encode),
)


@given(names)
def test_every_name_comes_back_byte_for_byte(name: bytes) -> None:
    text = to_text(name)
    assert to_bytes(text) == name
    text.encode()  # can be stored: no surrogates


@given(names, names)
def test_two_names_are_never_stored_as_the_same_text(one: bytes, other: bytes) -> None:
    assert (to_text(one) == to_text(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"caf\xe9.jpg", r"caf\xe9.jpg"), (b"a\nb", r"a\nb"), ("é~$ -".encode(), "é~$ -"), (b"\x1b[31m", r"\x1b[31m")],
)
def test_a_person_sees_what_can_be_seen(name: bytes, shown: str) -> None:
    assert to_display(to_text(name)) == shown


def test_utf8_names_are_stored_as_they_are() -> None:
    assert to_text("größe/文.txt".encode()) == "größe/文.txt"
