"""Groups of equal files and rules for them: plain ones by hand, and random ones."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import strategies as st

from duplicates.facts import FileFacts, Place

Rules = list[dict[str, Any]]

FOLDERS = ("", "a", "a/b", "ab", "c")
NAMES = ("x.jpg", "X (1).JPG", "copy of x.jpg", "x.png")


def place(key: int = 1, name: str = "Photos", role: str = "normal", **more: Any) -> Place:
    values = {"protected_folders": (), "filesystems": {}, "is_writable": True, "mount": "present", **more}
    return Place(key, name, f"/disk/{name}", role, **values)


PHOTOS = place()


def file(key: int, path: str = "", where: Place = PHOTOS, **more: Any) -> FileFacts:
    """A file of its own inode, unless that is given."""
    values = {"size": 10, "mtime_ns": 100, "ctime_ns": 100, "inode": key, "device": 1, "links": 1, "hashed_at": None}
    return FileFacts(key, where, path or f"{key}.jpg", **{**values, **more})


# --- Random ones --------------------------------------------------------------------------------------------
ROLES = ("normal", "normal", "normal", "protected", "backup")
PROTECTED: tuple[tuple[str, ...], ...] = ((), (), ("a",), ("a/b", "c"))
FILESYSTEMS: tuple[dict[str, str], ...] = ({"": "one"}, {}, {"": "one", "a": "two"}, {"": "two"})
TIMES = (1, 2, 3)
MAYBE = (1, 2, 3, None)
INODES = (1, 2, 3, 4, None)
DEVICES = (1, 1, 2, None)
#: One number says all about a library, and one about a file: that is much quicker than to draw each part of it.
PLACES = tuple(product(ROLES, PROTECTED, FILESYSTEMS))
FILES = tuple(product(FOLDERS, NAMES, TIMES, MAYBE, INODES, DEVICES, MAYBE))


@st.composite
def groups(draw: st.DrawFn) -> list[FileFacts]:
    """The files of one group, some of them names of one inode."""
    libraries = [
        place(key, f"L{key}", role, protected_folders=protected, filesystems=filesystems)
        for key, (role, protected, filesystems) in enumerate(
            draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)), 1
        )
    ]
    spots = st.tuples(st.sampled_from(libraries), st.sampled_from(FILES))
    files: dict[tuple[int, str], FileFacts] = {}
    for where, (folder, name, mtime, ctime, inode, device, links) in draw(st.lists(spots, min_size=1, max_size=7)):
        path = f"{folder}/{name}" if folder else name
        made = FileFacts(len(files) + 1, where, path, 10, mtime, ctime, inode, device, links, None)
        files.setdefault((where.id, path), made)
    return list(files.values())


folders = st.lists(
    st.fixed_dictionaries({"library": st.integers(1, 4), "path": st.sampled_from(FOLDERS)}), min_size=1, max_size=3
)
ranking = st.one_of(
    st.builds(
        lambda kind, at: {"kind": kind, "folders": at}, st.sampled_from(["keep_in", "remove_only_under"]), folders
    ),
    st.builds(lambda at: {"kind": "never_touch", "folders": at}, folders),
    st.sampled_from(["keep_oldest", "keep_newest", "keep_shortest_path", "keep_longest_path", "keep_most_links"]).map(
        lambda kind: {"kind": kind}
    ),
    st.builds(
        lambda kind, pattern: {"kind": kind, "pattern": pattern},
        st.sampled_from(["keep_name", "avoid_name"]),
        st.sampled_from(["*.jpg", "* (?).*", "copy*", "[xy].*"]),
    ),
)


COUNTS = (None, {"kind": "keep_copies", "count": 1}, {"kind": "keep_copies", "count": 2})
PARTS = (None, {"kind": "keep_per", "per": "library"}, {"kind": "keep_per", "per": "filesystem"})


def rule_sets() -> st.SearchStrategy[Rules]:
    """Up to four rules that hold or rank, and, somewhere among them, how many copies stay."""

    def joined(rules: Rules, count: Any, per: Any, at: int) -> Rules:
        rules = [*rules[:at], *filter(None, [count]), *rules[at:]]
        return [*rules, *filter(None, [per])]

    ordered = st.lists(ranking, max_size=4)
    return st.builds(joined, ordered, st.sampled_from(COUNTS), st.sampled_from(PARTS), st.integers(0, 4))


choices = st.dictionaries(st.integers(1, 7), st.sampled_from(["keep", "remove"]), max_size=7)
young = st.none() | st.integers(1, 3)
