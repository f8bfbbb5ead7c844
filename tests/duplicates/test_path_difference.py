from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duplicates.path_difference import GAP, Part, differences
from libraries.names import to_display, to_text

#: Names as disks have them, few enough to meet again, some of them no text.
NAMES = st.sampled_from(["a", "b", "2019", "IMG_1.jpg", "x" * 60, to_text(b"caf\xe9"), "…", " ", "new\nline"])
PATHS = st.lists(NAMES, min_size=1, max_size=6).map("/".join)


def joined(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts)


def strong(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts if part.differs)


def test_what_is_shared_at_both_ends_is_told_apart_from_what_differs() -> None:
    first, second = differences(["2019/italy/IMG_1.jpg", "2019/backup/old/IMG_1.jpg"])
    assert first == (Part("2019/", False), Part("italy/", True), Part("IMG_1.jpg", False))
    assert second == (Part("2019/", False), Part("backup/old/", True), Part("IMG_1.jpg", False))


def test_whole_names_are_compared_not_letters() -> None:
    first, second = differences(["a/IMG_1.jpg", "a/IMG_10.jpg"])
    assert (strong(first), strong(second)) == ("IMG_1.jpg", "IMG_10.jpg")


def test_a_path_inside_another_one_has_nothing_of_its_own() -> None:
    shallow, deep = differences(["a/x.jpg", "a/b/x.jpg"])
    assert strong(shallow) == ""
    assert strong(deep) == "b/"


def test_equal_paths_of_two_libraries_differ_in_nothing() -> None:
    assert differences(["a/x.jpg", "a/x.jpg"]) == [(Part("a/x.jpg", False),)] * 2


def test_one_path_is_shared_with_itself_and_none_is_none() -> None:
    assert differences(["a/x.jpg"]) == [(Part("a/x.jpg", False),)]
    assert differences([]) == []


def test_the_shared_beginning_is_cut_before_what_differs() -> None:
    deep = "/".join(["shared-folder"] * 10)
    parts = differences([f"{deep}/this-one/x.jpg", f"{deep}/that-one/x.jpg"], 60)[0]
    assert len(joined(parts)) == 60
    assert strong(parts) == "this-one/"
    assert joined(parts).startswith("shared-folder")
    assert joined(parts).endswith("this-one/x.jpg")


def test_a_name_longer_than_the_room_keeps_its_end() -> None:
    parts = differences(["a/" + "W" * 300 + "-edited.jpg", "b/y.jpg"], 60)[0]
    assert len(joined(parts)) == 60
    assert joined(parts).endswith("W-edited.jpg")
    assert GAP in joined(parts)


@given(st.lists(PATHS, min_size=1, max_size=5))
def test_joined_parts_are_the_paths_and_the_shared_ones_are_equal(paths: list[str]) -> None:
    found = differences(paths)
    assert [joined(parts) for parts in found] == [to_display(path) for path in paths]
    assert len({tuple(part.text.rstrip("/") for part in parts if not part.differs) for parts in found}) == 1
    # What is not shared tells different paths apart.
    assert (len({strong(parts) for parts in found}) == 1) == (len(set(paths)) == 1)


@given(st.lists(PATHS, min_size=1, max_size=5), st.integers(min_value=12, max_value=90))
def test_shortened_paths_fit_and_keep_their_end(paths: list[str], most: int) -> None:
    for whole, parts in zip(differences(paths), differences(paths, most), strict=True):
        text, shown = joined(whole), joined(parts)
        assert len(shown) <= most
        assert all(part.text for part in parts)
        if len(text) <= most:
            assert parts == whole
        else:
            assert GAP in shown
            end = shown.rpartition(GAP)[2] if GAP not in text else shown[-(most // 2) :]
            assert text.endswith(end)
            assert len(end) >= most // 2
