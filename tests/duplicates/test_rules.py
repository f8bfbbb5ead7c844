from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplicates.facts import FileFacts
from duplicates.rules import RulesError, Verdict, decide, parse
from tests.duplicates.rule_trees import Rules, choices, file, groups, place, rule_sets, young

ARCHIVE = place(2, "Archive")
DOWNLOADS = place(3, "Downloads")
OLDEST: Rules = [{"kind": "keep_oldest"}]


def judged(files: Sequence[FileFacts], rules: Rules, **more: Any) -> dict[int, Verdict]:
    return {verdict.file_id: verdict for verdict in decide(files, parse(rules), **more)}


def going(files: Sequence[FileFacts], rules: Rules, **more: Any) -> set[int]:
    return {key for key, verdict in judged(files, rules, **more).items() if verdict.role == "remove"}


def codes(files: Sequence[FileFacts], rules: Rules, **more: Any) -> dict[int, tuple[str, int]]:
    return {key: (verdict.code, verdict.rule) for key, verdict in judged(files, rules, **more).items()}


def folder(library: int, path: str = "") -> dict[str, Any]:
    return {"library": library, "path": path}


# --- Each kind ----------------------------------------------------------------------------------------------
def test_keep_in_keeps_the_copy_in_the_first_folder_that_has_one() -> None:
    rules: Rules = [{"kind": "keep_in", "folders": [folder(2, "best"), folder(1, "2019"), folder(3)]}]
    files = [file(1, "2019/a.jpg"), file(2, "2019b/a.jpg"), file(3, "a.jpg", DOWNLOADS), file(4, "x/a.jpg", ARCHIVE)]
    verdicts = judged(files, rules)
    assert going(files, rules) == {2, 3, 4}
    assert verdicts[1].reason == (
        "Stays by rule 1: it lies in Photos/2019; Downloads/a.jpg lies in a later folder or none."
    )
    assert verdicts[3].reason == "Goes: Photos/2019/a.jpg stays by rule 1 (Keep in folders)."
    assert {verdicts[key].keeper_id for key in (2, 3, 4)} == {1}


def test_keep_in_decides_nothing_where_no_folder_has_a_copy() -> None:
    files = [file(1), file(2)]
    assert codes(files, [{"kind": "keep_in", "folders": [folder(2)]}]) == {1: ("undecided", 0), 2: ("undecided", 0)}
    assert judged(files, [])[1].reason == "Stays: no rule decides between it and Photos/2.jpg."


def test_never_touch_keeps_what_lies_there_and_says_nothing_of_the_rest() -> None:
    files = [file(1, "a/x", mtime_ns=3), file(2, "b/x", mtime_ns=1), file(3, "c/x", mtime_ns=2)]
    rules = [*OLDEST, {"kind": "never_touch", "folders": [folder(1, "a")]}]
    assert codes(files, rules) == {1: ("never_touch", 2), 2: ("preferred", 1), 3: ("lost", 1)}
    assert judged(files, rules)[1].reason == "Stays: it lies in Photos/a, which rule 2 never touches."


def test_remove_only_under_lets_copies_go_there_where_one_lies_elsewhere() -> None:
    rules: Rules = [{"kind": "remove_only_under", "folders": [folder(3)]}]
    files = [file(1), file(2, where=ARCHIVE), file(3, where=DOWNLOADS), file(4, where=DOWNLOADS)]
    assert going(files, rules) == {3, 4}
    assert going(files[2:], rules) == set()
    assert going(files[:2], [*rules, *OLDEST]) == set()
    assert judged(files, rules)[3].reason == "Goes: Photos/1.jpg stays by rule 1 (Remove only under folders)."
    assert judged(files, rules)[1].reason == "Stays: it lies outside the folders in which rule 1 lets files go."


def test_remove_only_under_holds_whatever_the_rules_before_it_say() -> None:
    files = [file(1, mtime_ns=9), file(2, where=DOWNLOADS, mtime_ns=1)]
    assert going(files, [*OLDEST, {"kind": "remove_only_under", "folders": [folder(3)]}]) == set()
    assert going(files, [{"kind": "remove_only_under", "folders": [folder(3)]}, *OLDEST]) == {2}


@pytest.mark.parametrize(
    ("rule", "stays"),
    [
        ({"kind": "keep_oldest"}, 1),
        ({"kind": "keep_newest"}, 2),
        ({"kind": "keep_shortest_path"}, 3),
        ({"kind": "keep_longest_path"}, 2),
        ({"kind": "keep_most_links"}, 1),
        ({"kind": "keep_name", "pattern": "*.JPEG"}, 3),
        ({"kind": "avoid_name", "pattern": "*a*"}, 3),
        ({"kind": "keep_name", "pattern": "[!a].jp?g"}, 3),
    ],
)
def test_keep_one_by_what_it_is(rule: dict[str, Any], stays: int) -> None:
    files = [
        file(1, "x/a.jpg", mtime_ns=1, links=5),
        file(2, "long/way/a.jpg", mtime_ns=3, links=None),
        file(3, "b.jpeg", mtime_ns=2),
    ]
    verdicts = judged(files, [rule])
    assert going(files, [rule]) == {1, 2, 3} - {stays}
    assert verdicts[stays].code == "preferred"
    assert verdicts[stays].reason.startswith("Stays by rule 1: it")
    assert all(verdicts[key].keeper_id == stays for key in {1, 2, 3} - {stays})


def test_paths_are_measured_from_the_root_of_the_machine() -> None:
    far = place(4, "a/much/longer/root")
    assert going([file(1, "x", far), file(2, "yy")], [{"kind": "keep_shortest_path"}]) == {1}


def test_keep_copies_keeps_the_first_ones() -> None:
    files = [file(key, mtime_ns=key) for key in range(1, 6)]
    rules = [{"kind": "keep_copies", "count": 3}, *OLDEST]
    assert going(files, rules) == {4, 5}
    assert codes(files[:2], rules) == {1: ("wanted", 1), 2: ("wanted", 1)}
    assert "3 copies are to stay" in judged(files[:2], rules)[1].reason


def test_copies_that_are_equal_to_the_last_one_that_stays_stay_too() -> None:
    files = [file(1, mtime_ns=1), file(2, mtime_ns=2), file(3, mtime_ns=2), file(4, mtime_ns=3)]
    rules = [{"kind": "keep_copies", "count": 2}, *OLDEST]
    assert codes(files, rules) == {1: ("preferred", 2), 2: ("undecided", 0), 3: ("undecided", 0), 4: ("lost", 2)}


def test_keep_per_keeps_the_first_of_each_library() -> None:
    files = [file(1, mtime_ns=2), file(2, mtime_ns=1), file(3, where=ARCHIVE, mtime_ns=9)]
    rules = [{"kind": "keep_per", "per": "library"}, *OLDEST]
    assert codes(files, rules) == {1: ("lost", 2), 2: ("preferred", 2), 3: ("wanted", 1)}
    assert judged(files, rules)[3].reason == "Stays by rule 1: it is the only copy in its library that counts."


def test_keep_per_filesystem_knows_filesystems_by_name_and_trusts_no_unknown_one() -> None:
    one, two = place(1, "One", filesystems={"": "ext4", "nas": "xfs"}), place(2, "Two", filesystems={"": "ext4"})
    rules = [{"kind": "keep_per", "per": "filesystem"}, *OLDEST]
    files = [file(1, "a", one, mtime_ns=1), file(2, "nas/a", one, mtime_ns=2), file(3, "a", two, mtime_ns=3)]
    assert going(files, rules) == {3}
    unknown = [file(1, mtime_ns=1, device=None), file(2, mtime_ns=2, device=None), file(3, mtime_ns=3, device=4)]
    assert going(unknown, rules) == set()


def test_keep_per_and_keep_copies_fill_up_from_the_front() -> None:
    files = [file(1, mtime_ns=1), file(2, mtime_ns=2), file(3, mtime_ns=3), file(4, where=ARCHIVE, mtime_ns=4)]
    rules: Rules = [{"kind": "keep_copies", "count": 3}, {"kind": "keep_per", "per": "library"}, *OLDEST]
    assert going(files, rules) == {3}
    assert codes(files, rules)[2] == ("preferred", 3)


# --- The order ----------------------------------------------------------------------------------------------
def test_the_next_rule_decides_only_between_what_the_first_left_equal() -> None:
    rules = [{"kind": "keep_name", "pattern": "*.jpg"}, {"kind": "keep_newest"}]
    files = [file(1, "a.png", mtime_ns=9), file(2, "a.jpg", mtime_ns=1), file(3, "b.jpg", mtime_ns=2)]
    assert codes(files, rules) == {1: ("lost", 1), 2: ("lost", 2), 3: ("preferred", 2)}
    assert judged(files, rules)[1].reason == "Goes: Photos/b.jpg stays by rule 1 (Keep names like)."


def test_a_keeper_on_the_same_filesystem_is_named_first() -> None:
    rules = [{"kind": "keep_copies", "count": 2}, *OLDEST]
    files = [file(1, mtime_ns=1, device=1), file(2, mtime_ns=2, device=2), file(3, mtime_ns=3, device=2)]
    assert judged(files, rules)[3].keeper_id == 2


def test_a_keeper_on_the_same_filesystem_is_named_only_if_it_goes_before() -> None:
    rules: Rules = [{"kind": "keep_per", "per": "library"}, *OLDEST]
    files = [file(1, mtime_ns=1), file(2, mtime_ns=2, device=2), file(3, where=ARCHIVE, mtime_ns=9, device=2)]
    assert codes(files, rules) == {1: ("preferred", 2), 2: ("lost", 2), 3: ("wanted", 1)}
    assert judged(files, rules)[2].keeper_id == 1


# --- What stays in any case ---------------------------------------------------------------------------------
def test_protected_and_backup_copies_stay_and_only_protected_ones_stand_in_for_others() -> None:
    safe = place(2, "Safe", "protected")
    backup = place(3, "Backup", "backup")
    kept = place(4, "Kept", protected_folders=("2019",))
    rules: Rules = [{"kind": "keep_oldest"}]
    files = [file(1, mtime_ns=9), file(2, where=safe, mtime_ns=1), file(3, "2019/a", kept, mtime_ns=8)]
    assert codes(files, rules) == {1: ("lost", 1), 2: ("protected_library", 0), 3: ("protected_folder", 0)}
    files = [file(1, mtime_ns=9), file(2, where=backup, mtime_ns=1)]
    assert codes(files, rules) == {1: ("only", 0), 2: ("backup", 0)}


def test_young_files_stay_and_are_nobodys_keeper() -> None:
    files = [file(1, mtime_ns=50, ctime_ns=200), file(2, mtime_ns=60, ctime_ns=None), file(3, mtime_ns=70)]
    assert codes(files, OLDEST, young_after_ns=150) == {1: ("young", 0), 2: ("preferred", 1), 3: ("lost", 1)}
    assert judged(files, OLDEST, young_after_ns=150)[3].keeper_id == 2
    assert codes(files, OLDEST, young_after_ns=65)[2] == ("only", 0)


# --- Hard links ---------------------------------------------------------------------------------------------
def test_names_of_one_inode_stay_or_go_together() -> None:
    files = [file(1, "a", inode=7, links=2), file(2, "z/b", inode=7, links=2), file(3, "cc", inode=8)]
    rules: Rules = [{"kind": "keep_shortest_path"}]
    assert codes(files, rules) == {1: ("preferred", 1), 2: ("link", 0), 3: ("lost", 1)}
    assert "same file as Photos/a (hard link)" in judged(files, rules)[2].reason
    assert going(files, [{"kind": "keep_name", "pattern": "cc"}]) == {1, 2}
    assert going(files[:2], rules) == set()


def test_a_name_that_may_not_go_keeps_the_other_names_of_its_inode() -> None:
    safe = place(2, "Safe", "backup")
    files = [file(1, inode=7, mtime_ns=9), file(2, where=safe, inode=7, mtime_ns=9), file(3, mtime_ns=1)]
    assert codes(files, OLDEST) == {1: ("link", 0), 2: ("backup", 0), 3: ("preferred", 1)}


def test_a_file_with_names_out_of_sight_is_said_to_free_nothing() -> None:
    files = [file(1, mtime_ns=1), file(2, mtime_ns=2, links=2), file(3, mtime_ns=2)]
    verdicts = judged(files, OLDEST)
    assert "Frees nothing" in verdicts[2].reason
    assert "Frees nothing" not in verdicts[3].reason


# --- By hand ------------------------------------------------------------------------------------------------
def test_choices_go_before_the_rules() -> None:
    files = [file(1, mtime_ns=1), file(2, mtime_ns=2), file(3, mtime_ns=3), file(4, mtime_ns=4)]
    by_hand = {1: "remove", 4: "keep"}
    verdicts = judged(files, OLDEST, choices=by_hand)
    assert {key: verdict.code for key, verdict in verdicts.items()} == {
        1: "chosen", 2: "preferred", 3: "lost", 4: "chosen",
    }  # fmt: skip
    assert verdicts[1].reason == "Goes: chosen by hand; Photos/2.jpg stays."
    assert verdicts[4].role == "keep"


def test_a_choice_overrides_neither_protection_nor_the_last_copy() -> None:
    safe = place(2, "Safe", "protected")
    files = [file(1, mtime_ns=2), file(2, mtime_ns=1), file(3, where=safe)]
    assert going(files, [], choices={1: "remove", 2: "remove", 3: "remove"}) == {1, 2}
    everything = {1: "remove", 2: "remove"}
    assert going(files[:2], [], choices=everything) == set()
    assert codes(files[:2], OLDEST, choices=everything) == {1: ("chosen", 0), 2: ("last_copy", 0)}
    backup = [file(1), file(2, where=place(2, "Backup", "backup"))]
    assert codes(backup, [], choices=everything) == {1: ("last_copy", 0), 2: ("backup", 0)}


def test_one_name_of_an_inode_can_be_chosen_to_go() -> None:
    files = [file(1, inode=7, links=2), file(2, inode=7, links=2)]
    verdicts = judged(files, [], choices={2: "remove"})
    assert (verdicts[2].role, verdicts[2].keeper_id) == ("remove", 1)
    assert "Frees nothing" in verdicts[2].reason


def test_keep_copies_does_not_bring_back_what_was_chosen_to_go() -> None:
    files = [file(1, mtime_ns=1), file(2, mtime_ns=2)]
    assert going(files, [{"kind": "keep_copies", "count": 2}], choices={1: "remove"}) == {1}


# --- Whatever the files and the rules -----------------------------------------------------------------------
@settings(max_examples=120)
@given(groups(), rule_sets(), choices, young, st.randoms())
def test_every_group_keeps_what_must_stay(
    files: list[FileFacts], rules: Rules, by_hand: Mapping[int, str], after: int | None, chance: Any
) -> None:
    verdicts = judged(files, rules, choices=by_hand, young_after_ns=after)
    assert list(verdicts) == [each.id for each in files]
    by_id = {each.id: each for each in files}
    for each in files:
        verdict = verdicts[each.id]
        is_young = after is not None and max(each.mtime_ns, each.ctime_ns or 0) > after
        if each.is_protected or each.is_backup or is_young:
            assert verdict.role == "keep"
        if verdict.role == "keep":
            assert verdict.keeper_id is None
        else:
            keeper = by_id[verdict.keeper_id or 0]
            assert verdicts[keeper.id].role == "keep"
            assert not keeper.is_backup
            assert after is None or max(keeper.mtime_ns, keeper.ctime_ns or 0) <= after
    assert any(verdict.role == "keep" for verdict in verdicts.values())
    # In whatever order they are asked.
    mixed = list(files)
    chance.shuffle(mixed)
    assert judged(mixed, rules, choices=by_hand, young_after_ns=after) == verdicts
    # Where nobody chose, as many copies stay as are wanted, or all.
    verdicts = judged(files, rules, young_after_ns=after)
    wanted = next((rule["count"] for rule in rules if rule["kind"] == "keep_copies"), 1)
    staying = {each.inode_key for each in files if verdicts[each.id].role == "keep"}
    assert len(staying) >= min(wanted, len({each.inode_key for each in files}))
    # Another file elsewhere takes away no group's last copy.
    more = [*files, file(99, "new.jpg", place(9, "Elsewhere"), mtime_ns=2, ctime_ns=1)]
    assert any(verdict.role == "keep" for verdict in judged(more, rules, young_after_ns=after).values())


@settings(max_examples=36)
@given(st.integers(1, 6), st.integers(1, 6))
def test_keep_copies_keeps_exactly_so_many_where_the_rules_tell_all_apart(count: int, inodes: int) -> None:
    files = [file(key, mtime_ns=key % inodes, inode=key % inodes + 1) for key in range(1, inodes * 2 + 1)]
    rules = [{"kind": "keep_copies", "count": count}, *OLDEST]
    staying = {each.inode_key for each in files} - {each.inode_key for each in files if each.id in going(files, rules)}
    assert len(staying) == min(count, inodes)


# --- Reading ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"kind": "keep_best"}, "“kind” is one of keep_in"),
        ("keep_oldest", "“kind” is one of"),
        ({"kind": ["keep_oldest"]}, "“kind” is one of"),
        ({"kind": "keep_oldest", "folders": []}, "has no folders"),
        ({"kind": "keep_in"}, "at least one folder"),
        ({"kind": "keep_in", "folders": [{"library": "Photos"}]}, "library's number"),
        ({"kind": "keep_in", "folders": [{"library": True}]}, "library's number"),
        ({"kind": "keep_in", "folders": [folder(1, "a/../..")]}, "without “..”"),
        ({"kind": "keep_in", "folders": [folder(1, "/etc")]}, "below the library"),
        ({"kind": "keep_in", "folders": [folder(1, "a\0")]}, "no name has"),
        ({"kind": "keep_in", "folders": [folder(1, "\ud800")]}, "no name has"),
        ({"kind": "keep_in", "folders": [folder(1, str(n)) for n in range(101)]}, "100 folders"),
        ({"kind": "keep_name", "pattern": ""}, "Write a pattern"),
        ({"kind": "keep_name", "pattern": "a" * 256}, "255 characters"),
        ({"kind": "keep_name", "pattern": "a/b"}, "leave out the slash"),
        ({"kind": "keep_copies", "count": 0}, "from 1 to"),
        ({"kind": "keep_copies", "count": True}, "from 1 to"),
        ({"kind": "keep_per", "per": "day"}, "library"),
    ],
)
def test_parse_says_what_is_wrong_and_where(rule: Any, words: str) -> None:
    with pytest.raises(RulesError, match="Rule 2: ") as refusal:
        parse([{"kind": "keep_oldest"}, rule])
    assert words in str(refusal.value)
    assert [number for number, _ in refusal.value.problems] == [2]


def test_parse_names_every_wrong_rule_at_once() -> None:
    wrong: Rules = [{"kind": "keep_in"}, {"kind": "keep_oldest"}, {"kind": "keep_copies", "count": 2}]
    with pytest.raises(RulesError) as refusal:
        parse([*wrong, {"kind": "keep_copies", "count": 3}])
    assert [number for number, _ in refusal.value.problems] == [1, 4]
    unfit: list[Any] = [{}, None, [{"kind": "keep_oldest"}] * 51]
    for each in unfit:
        with pytest.raises(RulesError):
            parse(each)


def test_a_folder_is_read_as_it_is_compared() -> None:
    (rule,) = parse([{"kind": "keep_in", "folders": [folder(1, "a//b/./c/"), folder(1, "a/b/c"), {"library": 2}]}])
    assert rule.as_json() == {"kind": "keep_in", "folders": [folder(1, "a/b/c"), folder(2)]}


@settings(max_examples=50)
@given(rule_sets())
def test_what_is_written_is_read_as_the_same_rules(rules: Rules) -> None:
    read = parse(rules)
    assert parse([rule.as_json() for rule in read]) == read


def test_a_pattern_comes_to_an_end_on_any_name() -> None:
    pattern = "*a" * 120 + "b"
    files = [file(1, "a" * 250 + "c"), file(2, "x")]
    begun = time.process_time()
    decide(files, parse([{"kind": "keep_name", "pattern": pattern}]))
    assert time.process_time() - begun < 1


def test_names_that_are_no_text_are_shown_as_escapes() -> None:
    files = [file(1, "caf\uf7e9\n.jpg", mtime_ns=1), file(2, mtime_ns=2)]
    assert judged(files, OLDEST)[2].reason == "Goes: Photos/caf\\xe9\\n.jpg stays by rule 1 (Keep the oldest)."
