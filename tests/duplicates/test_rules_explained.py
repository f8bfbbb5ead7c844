"""Every reason, checked as a person would: with nothing but the rules as they are written and the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hypothesis import given, settings

from duplicates.facts import FileFacts
from duplicates.rules import Verdict, decide, parse
from tests.duplicates.rule_trees import Rules, choices, groups, rule_sets, young


def lies_in(file: FileFacts, folder: dict[str, Any]) -> bool:
    whole = f"{file.place.id}:/{file.path}"
    start = f"{folder['library']}:/{folder['path']}".rstrip("/")
    return whole.startswith(start + "/")


def first_of_two(rule: dict[str, Any], one: FileFacts, two: FileFacts) -> int:
    """Which of two files a rule puts first: 1, 2, or 0 where it says nothing."""

    def pick(is_first: Callable[[FileFacts], Any]) -> int:
        mine, other = is_first(one), is_first(two)
        return 0 if mine == other else 1 if mine < other else 2

    folders = rule.get("folders", [])
    names = {one.id: one.path.split("/")[-1].lower(), two.id: two.path.split("/")[-1].lower()}
    pattern = rule.get("pattern", "").lower()
    match rule["kind"]:
        case "keep_in":
            for folder in folders:
                if lies_in(one, folder) != lies_in(two, folder):
                    return 1 if lies_in(one, folder) else 2
                if lies_in(one, folder):
                    return 0
            return 0
        case "remove_only_under":
            return pick(lambda file: any(lies_in(file, folder) for folder in folders))
        case "keep_name":
            return pick(lambda file: not fnmatchcase(names[file.id], pattern))
        case "avoid_name":
            return pick(lambda file: fnmatchcase(names[file.id], pattern))
        case "keep_oldest":
            return pick(lambda file: file.mtime_ns)
        case "keep_newest":
            return pick(lambda file: -file.mtime_ns)
        case "keep_shortest_path":
            return pick(lambda file: len(f"{file.place.root_path}/{file.path}"))
        case "keep_longest_path":
            return pick(lambda file: -len(f"{file.place.root_path}/{file.path}"))
        case "keep_most_links":
            return pick(lambda file: -(file.links or 1))
    return 0


@dataclass
class Hand:
    """The files, the rules and the choices, laid out on a table."""

    files: list[FileFacts]
    rules: Rules
    choices: Mapping[int, str]
    young_after: int | None

    def __post_init__(self) -> None:
        self.by_id = {file.id: file for file in self.files}
        self.marked = {file.id for file in self.files if not self.held(file) and self.choices.get(file.id) == "remove"}
        counting = [file for file in self.files if not self.countless(file) and file.id not in self.marked]
        self.is_last = bool(self.marked) and not counting
        if self.is_last:
            counting = [self.by_id[key] for key in self.marked]
        #: The best name of each copy that counts.
        self.copies = [
            file
            for file in counting
            if not any(self.is_better_name(other, file) for other in counting if other.inode_key == file.inode_key)
        ]
        self.wanted = 1 if self.is_last else next((r["count"] for r in rules_of(self.rules, "keep_copies")), 1)
        self.per = None if self.is_last else next((r["per"] for r in rules_of(self.rules, "keep_per")), None)

    def countless(self, file: FileFacts) -> bool:
        return file.place.role == "backup" or self.is_young(file)

    def protected(self, file: FileFacts) -> bool:
        return file.place.role == "protected" or any(
            file.path.startswith(f"{folder}/") for folder in file.place.protected_folders
        )

    def is_young(self, file: FileFacts) -> bool:
        times = [file.mtime_ns] + ([] if file.ctime_ns is None else [file.ctime_ns])
        return self.young_after is not None and any(each > self.young_after for each in times)

    def held(self, file: FileFacts) -> bool:
        if self.protected(file) or file.place.role == "backup" or self.is_young(file):
            return True
        if self.choices.get(file.id) == "keep":
            return True
        never = [folder for rule in rules_of(self.rules, "never_touch") for folder in rule["folders"]]
        if any(lies_in(file, folder) for folder in never):
            return True
        only = rules_of(self.rules, "remove_only_under")
        return any(not any(lies_in(file, folder) for folder in rule["folders"]) for rule in only)

    def parting(self, one: FileFacts, two: FileFacts) -> tuple[int, int]:
        """The number of the first rule that tells them apart, and which of them it puts first."""
        for number, rule in enumerate(self.rules, 1):
            if first := first_of_two(rule, one, two):
                return number, first
        return 0, 0

    def before(self, file: FileFacts, among: list[FileFacts]) -> list[FileFacts]:
        return [other for other in among if self.parting(other, file)[1] == 1]

    def is_better_name(self, other: FileFacts, file: FileFacts) -> bool:
        first = self.parting(other, file)[1]
        return first == 1 or (first == 0 and other.id < file.id)

    def part(self, file: FileFacts) -> Any:
        if self.per == "library":
            return file.place.id
        folder, name = file.path, ""
        while folder and not name:
            folder = folder.rpartition("/")[0]
            name = file.place.filesystems.get(folder, "")
        return name or (("device", file.device) if file.device is not None else ("file", file.id))

    def part_of(self, file: FileFacts) -> list[FileFacts]:
        if self.per is None:
            return self.copies
        return [copy for copy in self.copies if self.part(copy) == self.part(file)]

    def best_name(self, file: FileFacts) -> FileFacts:
        return next(copy for copy in self.copies if copy.inode_key == file.inode_key)

    def keeping(self) -> list[FileFacts]:
        """The copies that stay by the rules: so many are before it in the order that it is still wanted."""
        if self.per is None:
            return [copy for copy in self.copies if len(self.before(copy, self.copies)) < self.wanted]
        firsts = [copy for copy in self.copies if not self.before(copy, self.part_of(copy))]
        rest = [copy for copy in self.copies if copy not in firsts]
        return firsts + [copy for copy in rest if len(self.before(copy, rest)) < self.wanted - len(firsts)]

    def removing(self) -> set[int]:
        """All that goes, decided without the engine."""
        keeping = {copy.id for copy in self.keeping()}
        stays = {file.id for file in self.files if self.held(file)} | keeping
        inodes = {self.by_id[key].inode_key for key in stays}
        going = self.marked - keeping
        return going | {file.id for file in self.files if file.id not in stays and file.inode_key not in inodes}


def rules_of(rules: Rules, kind: str) -> Rules:
    return [rule for rule in rules if rule["kind"] == kind]


def holds_true(hand: Hand, verdict: Verdict, verdicts: Mapping[int, Verdict]) -> bool:
    """Whether what a verdict claims by its code and rule is so, and leads to its role."""
    file = hand.by_id[verdict.file_id]
    rule = hand.rules[verdict.rule - 1] if verdict.rule else {}
    if verdict.role == "remove":
        keeper = hand.by_id[verdict.keeper_id or 0]
        is_sound = verdicts[keeper.id].role == "keep" and not hand.countless(keeper) and not hand.held(file)
        if verdict.code == "chosen":
            return is_sound and hand.choices[file.id] == "remove"
        best = hand.best_name(file)
        return is_sound and verdict.code == "lost" and hand.parting(keeper, best) == (verdict.rule, 1)
    others = [copy for copy in hand.copies if copy.inode_key != file.inode_key]
    match verdict.code:
        case "protected_library":
            return file.place.role == "protected"
        case "protected_folder":
            return hand.protected(file)
        case "backup":
            return file.place.role == "backup"
        case "young":
            return hand.is_young(file)
        case "never_touch":
            return rule["kind"] == "never_touch" and any(lies_in(file, each) for each in rule["folders"])
        case "remove_only_under":
            return rule["kind"] == verdict.code and not any(lies_in(file, each) for each in rule["folders"])
        case "chosen":
            return hand.choices[file.id] == "keep"
        case "link":
            twins = [each for each in hand.files if each.inode_key == file.inode_key]
            return any(verdicts[each.id].role == "keep" and verdicts[each.id].code != "link" for each in twins)
        case "only":
            return not others and file in hand.copies
        case "wanted" if rule["kind"] == "keep_copies":
            return bool(len(hand.copies) <= rule["count"])
        case "wanted":
            return rule["kind"] == "keep_per" and hand.part_of(file) == [file]
        case "undecided":
            return any(hand.parting(file, other) == (0, 0) for other in others)
        case "preferred":
            return file in hand.keeping() and any(hand.parting(file, other) == (verdict.rule, 1) for other in others)
        case "last_copy":
            return hand.is_last and file in hand.keeping()
    return False


def is_said(hand: Hand, verdict: Verdict) -> bool:
    """Whether the sentence names what the verdict rests on."""
    reason = verdict.reason
    keeper = hand.by_id.get(verdict.keeper_id or 0)
    return (
        reason.startswith("Goes: " if verdict.role == "remove" else "Stays")
        and reason.endswith(".")
        and "%" not in reason
        and (not verdict.rule or f"rule {verdict.rule}" in reason)
        and (keeper is None or f"{keeper.place.name}/{keeper.path}" in reason)
    )


@settings(max_examples=250)
@given(groups(), rule_sets(), choices, young)
def test_reasons_applied_by_hand_give_the_same_decisions(
    files: list[FileFacts], rules: Rules, by_hand: Mapping[int, str], after: int | None
) -> None:
    verdicts = {
        verdict.file_id: verdict for verdict in decide(files, parse(rules), choices=by_hand, young_after_ns=after)
    }
    hand = Hand(files, rules, by_hand, after)
    assert {key for key, verdict in verdicts.items() if verdict.role == "remove"} == hand.removing()
    for verdict in verdicts.values():
        assert holds_true(hand, verdict, verdicts), verdict
        assert is_said(hand, verdict), verdict
