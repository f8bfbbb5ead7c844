"""Keep rules: which files of a group stay, which go, and why. Nothing here touches a database or a disk.

**A copy** is one inode. Its names (hard links) stay or go together, and it is judged by its best name. Only a choice
by hand parts them.

**1. What stays in any case**, wherever the rule stands in the order: files in protected libraries and folders, files
in backup libraries, young files, what a rule holds (`never_touch`, and whatever lies elsewhere for
`remove_only_under`), and what somebody chose to keep.

**2. What goes by hand.** A file that somebody chose to remove goes, unless it stays by 1 or no copy that counts would
be left: then the rules say which of the marked ones stays.

**3. Who counts.** A backup is no reason to remove the original, and a young file may still change: neither counts as
the copy that stays. All others do, protected ones too.

**4. The order.** The copies that count are put in order by rule 1, those that are equal by rule 2, and so on:

- `keep_in`: those in the first folder, then those in the second …, then the rest;
- `remove_only_under`: those that lie elsewhere, then those that may go;
- `keep_name`, `avoid_name`: those that fit (don't fit) the pattern, then the rest;
- `keep_oldest`, `keep_newest`, `keep_shortest_path`, `keep_longest_path`, `keep_most_links`: by that measure.

**5. How many stay.** The first one; with `keep_copies` the first N; with `keep_per` the first one of each library or
filesystem, and then further ones from the front until there are as many as `keep_copies` says. **What is equal to the
last one that stays, stays as well: no rule decides between them.** The rest goes, unless it stays by 1.

So a file goes only because a person chose it or because another copy, which counts and stays, goes before it by a rule
that can be named; and the first of the order always stays. Which file is asked first makes no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from django.utils.translation import gettext as _

from duplicates.facts import FileFacts
from duplicates.rule_kinds import KINDS, KeepCopies, KeepPer, Rule, WrongRule, filesystem_of
from duplicates.rule_order import Copy, Outcome, Wanted, parting, settle
from duplicates.rule_words import Reasons

MOST_RULES = 50
InodeKey = tuple[int, int]
KEEP: Literal["keep"] = "keep"
REMOVE: Literal["remove"] = "remove"
#: These stay, and are no reason for others to go.
NOT_COUNTED = frozenset({"backup", "young"})


class RulesError(ValueError):
    """Rules that can't be used. `problems` says what is wrong with which rule, counted from 1; 0 is all of them."""

    def __init__(self, problems: list[tuple[int, str]]) -> None:
        self.problems = problems
        rule = _("Rule %(rule)d: %(problem)s")
        said = [rule % {"rule": number, "problem": text} if number else text for number, text in problems]
        super().__init__(" ".join(said))


class Verdict(NamedTuple):
    file_id: int
    role: Literal["keep", "remove"]
    #: The file that stays, for one that goes.
    keeper_id: int | None
    #: Stays: protected_library, protected_folder, backup, young, never_touch, remove_only_under, chosen, link,
    #: preferred, wanted, undecided, only, last_copy. Goes: lost, chosen.
    code: str
    reason: str
    #: The rule that says so, counted from 1; 0 is none.
    rule: int = 0


class Rules(tuple[Rule, ...]):
    """Rules in their order, sorted by what they do, so that this is worked out once and not for each group."""

    #: Each rule that holds files, with what is then said of them.
    holding: list[tuple[Rule, Outcome]]
    ranking: list[Rule]
    #: The number of each rule that ranks.
    numbers: list[int]
    wanted: Wanted
    reasons: Reasons

    def __new__(cls, rules: Iterable[Rule]) -> Rules:
        made = super().__new__(cls, tuple(rules))
        counted = list(enumerate(made, 1))
        made.holding = [(rule, Outcome(rule.kind, number)) for number, rule in counted if rule.does_hold]
        made.ranking = [rule for rule in made if rule.does_rank]
        made.numbers = [number for number, rule in counted if rule.does_rank]
        made.reasons = Reasons(made)
        made.wanted = Wanted()
        for number, rule in counted:
            if isinstance(rule, KeepCopies):
                made.wanted = made.wanted._replace(copies=rule.count, copies_rule=number)
            elif isinstance(rule, KeepPer):
                made.wanted = made.wanted._replace(per=rule, per_rule=number)
        return made


# --- Reading ------------------------------------------------------------------------------------------------
def parse(rules: list[dict[str, Any]]) -> tuple[Rule, ...]:
    """Rules from what a set holds as JSON. Raises `RulesError`, which says all that is wrong at once."""
    if not isinstance(rules, list):
        raise RulesError([(0, _("Rules are a list of objects, each with its “kind”."))])
    if len(rules) > MOST_RULES:
        words = _("A set may have %(most)d rules; this one has %(count)d.")
        raise RulesError([(0, words % {"most": MOST_RULES, "count": len(rules)})])
    read: list[Rule] = []
    problems: list[tuple[int, str]] = []
    for number, given in enumerate(rules, 1):
        try:
            read.append(_read(given, read))
        except WrongRule as problem:
            problems.append((number, str(problem)))
    if problems:
        raise RulesError(problems)
    return Rules(read)


def _read(given: Any, before: list[Rule]) -> Rule:
    kind = given.get("kind") if isinstance(given, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise WrongRule(_("A rule is an object whose “kind” is one of %(kinds)s.") % {"kinds": ", ".join(KINDS)})
    rule = KINDS[kind].read(given)
    if rule.is_single and any(each.kind == kind for each in before):
        raise WrongRule(_("A set has this kind only once; change the rule that is there."))
    return rule


# --- Deciding -----------------------------------------------------------------------------------------------
def decide(
    files: Sequence[FileFacts],
    rules: tuple[Rule, ...],
    *,
    choices: Mapping[int, str] = {},
    young_after_ns: int | None = None,
) -> list[Verdict]:
    """One verdict for each file of one group, in the order given."""
    prepared = rules if isinstance(rules, Rules) else Rules(rules)
    grounds = [_ground(file, prepared, choices, young_after_ns) for file in files]
    pairs = list(zip(files, grounds, strict=True))
    counting = [file for file, ground in pairs if ground is None or ground.code not in NOT_COUNTED]
    going: set[int] = set()
    is_last = False
    if choices:
        marked = [file for file, ground in pairs if ground is None and choices.get(file.id) == REMOVE]
        going = {file.id for file in marked}
        counting = [file for file in counting if file.id not in going]
        if marked and not counting:
            is_last, counting = True, marked
    copies = _in_order(counting, prepared)
    staying = settle(copies, prepared.numbers, Wanted() if is_last else prepared.wanted)
    if is_last:
        staying = {key: _last_copy(outcome) for key, outcome in staying.items()}
        going -= staying.keys()
    verdicts = _Judging(pairs, prepared, going, copies, staying).verdicts()
    _make_sure(verdicts, counting)
    return verdicts


def _last_copy(outcome: Outcome) -> Outcome:
    return Outcome("last_copy", 0, outcome.other if outcome.code == "undecided" else None)


def _ground(file: FileFacts, rules: Rules, choices: Mapping[int, str], young_after_ns: int | None) -> Outcome | None:
    """Why a file stays in any case."""
    place = file.place
    # First those that don't count, so that a young file in a protected library is no reason either.
    if place.role == "backup":
        return _BACKUP
    if file.place.is_young(max(file.mtime_ns, file.ctime_ns or file.mtime_ns), young_after_ns):
        return _YOUNG
    if place.role == "protected":
        return _PROTECTED_LIBRARY
    if place.protected_folders and place.protects(file.path):
        return _PROTECTED_FOLDER
    for rule, outcome in rules.holding:
        if rule.holds(file):
            return outcome
    return _CHOSEN if choices and choices.get(file.id) == KEEP else None


_BACKUP = Outcome("backup")
_PROTECTED_LIBRARY = Outcome("protected_library")
_PROTECTED_FOLDER = Outcome("protected_folder")
_YOUNG = Outcome("young")
_CHOSEN = Outcome("chosen")


def _in_order(files: Iterable[FileFacts], rules: Rules) -> list[Copy]:
    """The copies these files are, first ones first. Among equals the smallest id is first, which decides nothing."""
    best: dict[InodeKey, Copy] = {}
    ranking = rules.ranking
    for file in files:
        key = file.inode_key
        copy = Copy([rule.rank(file) for rule in ranking], file.id, file, key)
        if key not in best or copy < best[key]:
            best[key] = copy
    return sorted(best.values()) if len(best) > 1 else list(best.values())


class _Judging:
    """From copies back to their names: what becomes of each file, with the words for it."""

    def __init__(
        self,
        pairs: Sequence[tuple[FileFacts, Outcome | None]],
        rules: Rules,
        going: set[int],
        copies: Sequence[Copy],
        staying: Mapping[int, Outcome],
    ) -> None:
        self.pairs = pairs
        self.rules = rules
        self.going = going
        self.staying = staying
        self.copies = {copy.inode_key: copy for copy in copies}
        self.kept = [copy for copy in copies if copy.id in staying]
        #: For each inode of which a name stays by itself, that name: the smallest id.
        self.held: dict[InodeKey, FileFacts] = {}
        for file, ground in pairs:
            if ground is not None or file.id in staying:
                key = file.inode_key
                if key not in self.held or file.id < self.held[key].id:
                    self.held[key] = file

    def verdicts(self) -> list[Verdict]:
        return [self._verdict(file, ground) for file, ground in self.pairs]

    def _verdict(self, file: FileFacts, ground: Outcome | None) -> Verdict:
        why = ground or self.staying.get(file.id)
        if why is not None:
            return self._stays(file, why)
        key = file.inode_key
        held = self.held.get(key)
        if file.id in self.going:
            return self._goes(file, "chosen", 0, self._keeper_of(file), held is not None)
        if held is not None:
            return self._stays(file, Outcome("link", 0, held))
        copy, keeper = self.copies[key], self._keeper_of(file)
        if not keeper.rank < copy.rank:
            keeper = self.kept[0]
        return self._goes(file, "lost", self.rules.numbers[parting(keeper, copy)], keeper, False)

    def _keeper_of(self, file: FileFacts) -> Copy:
        """The first copy that stays on the same filesystem, else the first of all."""
        if len(self.kept) == 1:
            return self.kept[0]
        return self._first_on_each.get(filesystem_of(file), self.kept[0])

    @cached_property
    def _first_on_each(self) -> dict[Any, Copy]:
        return {filesystem_of(copy.file): copy for copy in reversed(self.kept)}

    @cached_property
    def _names(self) -> Counter[InodeKey]:
        return Counter(file.inode_key for file, _ground in self.pairs)

    def _stays(self, file: FileFacts, why: Outcome) -> Verdict:
        reason = self.rules.reasons.to_stay(file, why)
        return Verdict(file.id, KEEP, None, why.code, reason, why.rule)

    def _goes(self, file: FileFacts, code: str, rule: int, keeper: Copy, has_names_left: bool) -> Verdict:
        # Names out of sight, outside the libraries, hold its space as those do that stay.
        if file.links is not None and file.links > 1 and not has_names_left:
            has_names_left = self._names[file.inode_key] < file.links
        reason = self.rules.reasons.to_go(code, rule, keeper.file, has_names_left)
        return Verdict(file.id, REMOVE, keeper.id, code, reason, rule)


def _make_sure(verdicts: Sequence[Verdict], counting: Sequence[FileFacts]) -> None:
    """The promise of it all: where anything goes, a copy that counts stays, and each that goes names one that stays."""
    going = [verdict for verdict in verdicts if verdict.role == REMOVE]
    if not going:
        return
    gone = {verdict.file_id for verdict in going}
    if all(file.id in gone for file in counting) or any(verdict.keeper_id in gone for verdict in going):
        raise AssertionError("the last copy of a group would go")
