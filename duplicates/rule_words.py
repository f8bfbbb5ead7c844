"""What people read of rules: each one in words, and for every file why it stays or goes. Whole sentences, so that they
can be translated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from duplicates.facts import FileFacts
from duplicates.rule_kinds import Folder, FolderRule, KeepCopies, KeepIn, KeepPer, NameRule, Rule
from duplicates.rule_order import Outcome
from libraries.names import to_display


def shown(text: str) -> str:
    """Millions of names are printable as they are; asking that first is what makes it quick."""
    return text if text.isprintable() else to_display(text)


def shown_path(file: FileFacts) -> str:
    return shown(f"{file.place.name}/{file.path}")


# --- Why a file stays or goes -------------------------------------------------------------------------------
_STAYS = {
    "protected_library": gettext_noop("Stays: the library %(library)s is protected."),
    "protected_folder": gettext_noop("Stays: it lies in a protected folder of %(library)s."),
    "backup": gettext_noop("Stays: %(library)s is a backup. Its copies never go, and nothing goes because of them."),
    "young": gettext_noop("Stays: it has changed lately and may still be written to."),
    "remove_only_under": gettext_noop("Stays: it lies outside the folders in which rule %(rule)d lets files go."),
    "chosen": gettext_noop("Stays: chosen by hand."),
    "link": gettext_noop(
        "Stays: it is the same file as %(other)s (hard link), which stays. Removing it frees nothing."
    ),
    "undecided": gettext_noop("Stays: no rule decides between it and %(other)s."),
    "only": gettext_noop("Stays: there is no other copy that could stand in for it."),
    "last_copy": gettext_noop("Stays although it was chosen to go: one copy has to stay."),
    "last_copies": gettext_noop("Stays although it was chosen to go: one copy has to stay, and no rule says which."),
    "never_touch": gettext_noop("Stays: it lies in %(folder)s, which rule %(rule)d never touches."),
}
_PREFERRED = {
    "keep_in": gettext_noop("Stays by rule %(rule)d: it lies in %(folder)s; %(other)s lies in a later folder or none."),
    "remove_only_under": gettext_noop("Stays by rule %(rule)d: only %(other)s lies where files may go."),
    "keep_oldest": gettext_noop("Stays by rule %(rule)d: it is older than %(other)s."),
    "keep_newest": gettext_noop("Stays by rule %(rule)d: it is newer than %(other)s."),
    "keep_shortest_path": gettext_noop("Stays by rule %(rule)d: its path is shorter than that of %(other)s."),
    "keep_longest_path": gettext_noop("Stays by rule %(rule)d: its path is longer than that of %(other)s."),
    "keep_name": gettext_noop("Stays by rule %(rule)d: its name fits %(pattern)s, that of %(other)s doesn't."),
    "avoid_name": gettext_noop("Stays by rule %(rule)d: its name doesn't fit %(pattern)s, that of %(other)s does."),
    "keep_most_links": gettext_noop("Stays by rule %(rule)d: it has more hard links than %(other)s."),
}


_GOES = {
    "lost": gettext_noop("Goes: %(keeper)s stays by rule %(rule)d (%(label)s)."),
    "chosen": gettext_noop("Goes: chosen by hand; %(keeper)s stays."),
}
_FREES_NOTHING = gettext_noop("Frees nothing while other names of the same file (hard links) stay.")


class Sentences(dict[str, str]):
    """Translated when first asked for, and then remembered: to look a sentence up costs more than to decide a group."""

    def __missing__(self, english: str) -> str:
        said = self[english] = _(english)
        return said


class Reasons:
    """The words for what these rules decide, in the language that is in force when they are first used."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.sentences = Sentences()
        self.labels: dict[int, str] = {}

    def to_stay(self, file: FileFacts, why: Outcome) -> str:
        code, number, other = why
        rule = self.rules[number - 1] if number else None
        if code == "wanted":
            return _wanted(rule, number)
        values: dict[str, Any] = {"library": shown(file.place.name), "rule": number}
        if other is not None:
            values["other"] = shown_path(other)
        if isinstance(rule, FolderRule) and (folder := rule.folder_of(file)):
            values["folder"] = written_folder(folder, {file.place.id: file.place.name})
        elif isinstance(rule, NameRule):
            values["pattern"] = shown(rule.pattern)
        if code == "preferred" and rule is not None:
            return self.sentences[_PREFERRED[rule.kind]] % values
        if code == "last_copy" and other is not None:
            code = "last_copies"
        return self.sentences[_STAYS[code]] % values

    def to_go(self, code: str, number: int, keeper: FileFacts, has_names_left: bool) -> str:
        label = self._label(number) if number else ""
        values = {"keeper": shown_path(keeper), "rule": number, "label": label}
        said = self.sentences[_GOES[code]] % values
        return f"{said} {self.sentences[_FREES_NOTHING]}" if has_names_left else said

    def _label(self, number: int) -> str:
        if number not in self.labels:
            self.labels[number] = str(self.rules[number - 1].label)
        return self.labels[number]


def _wanted(rule: Rule | None, number: int) -> str:
    if isinstance(rule, KeepPer):
        if rule.per == "library":
            return _("Stays by rule %(rule)d: it is the only copy in its library that counts.") % {"rule": number}
        return _("Stays by rule %(rule)d: it is the only copy on its filesystem that counts.") % {"rule": number}
    count = rule.count if isinstance(rule, KeepCopies) else 1
    words = ngettext(
        "Stays by rule %(rule)d: %(count)d copy is to stay, and there are no more.",
        "Stays by rule %(rule)d: %(count)d copies are to stay, and there are no more.",
        count,
    )
    return words % {"rule": number, "count": count}


# --- A rule in words ----------------------------------------------------------------------------------------
def written_folder(folder: Folder, names: Mapping[int, str]) -> str:
    """A folder as people write it: the library's name, then the path below it."""
    name = names.get(folder.library)
    if name is None:
        name = _("library %(number)d (removed)") % {"number": folder.library}
    return shown(f"{name}/{folder.path}" if folder.path else name)


def in_words(rule: Rule, names: Mapping[int, str]) -> str:
    """One rule as a sentence; `names` are those of the libraries."""
    if isinstance(rule, FolderRule):
        folders = [written_folder(folder, names) for folder in rule.folders]
        between = _(", then ") if isinstance(rule, KeepIn) else ", "
        return f"{rule.label}: {between.join(folders)}"
    if isinstance(rule, NameRule):
        return f"{rule.label} {shown(rule.pattern)}"
    if isinstance(rule, KeepCopies):
        return ngettext("Keep %(count)d copy", "Keep %(count)d copies", rule.count) % {"count": rule.count}
    if isinstance(rule, KeepPer):
        return _("Keep one in each library") if rule.per == "library" else _("Keep one on each filesystem")
    return str(rule.label)
