"""What is written about the product: its pages, and the commands, targets and settings that they name."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.core.management import get_commands, load_command_class

from tests.conftest import ROOT

#: Django's own commands that the pages may name beside ours.
DJANGO_S = frozenset({"migrate", "check"})
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", text)


def blocks(text: str) -> list[str]:
    """Its blocks of code, but for those in some language that is no shell."""
    return [body for language, body in _FENCE.findall(text) if not language]


def inline(text: str) -> list[str]:
    """Code inside sentences, on one line whatever the line's end was."""
    return [" ".join(words.split()) for words in _INLINE.findall(prose(text))]


def lines(text: str) -> Iterator[str]:
    """The lines of the blocks; one that is indented goes on with the line before."""
    for block in blocks(text):
        yield from re.sub(r"\n[ \t]+", " ", block).splitlines()


# --- Commands ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Parsed:
    """What a command takes: its flags, and those of its subcommands."""

    flags: frozenset[str]
    subcommands: dict[str, frozenset[str]]


def own_commands() -> dict[str, Parsed]:
    rooms = {path.parent.name for path in ROOT.glob("*/apps.py")}
    found = {name: app for name, app in get_commands().items() if app in rooms or name in DJANGO_S}
    return {
        name: _parsed(load_command_class(app, name).create_parser("manage.py", name)) for name, app in found.items()
    }


def _parsed(parser: argparse.ArgumentParser) -> Parsed:
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return Parsed(_flags(parser), {name: _flags(sub) for each in inner for name, sub in each.choices.items()})


def _flags(parser: argparse.ArgumentParser) -> frozenset[str]:
    return frozenset(flag for action in parser._actions for flag in action.option_strings)


def problems(words: str, known: dict[str, Parsed]) -> list[str]:
    """What is wrong with `COMMAND …` as a page writes it: the command, its subcommand or a flag is not there."""
    command, _, rest = words.partition(" ")
    if command not in known:
        return [f"no command {command}"]
    takes, flags = known[command], set(known[command].flags)
    first = rest.split()[0] if rest.split() else ""
    if takes.subcommands and first:
        if first not in takes.subcommands:
            return [f"{command} has no {first}"]
        flags |= takes.subcommands[first]
    return [f"{command} takes no {flag}" for flag in _FLAG.findall(rest) if flag not in flags]


def commands_named(text: str) -> list[str]:
    """Every `manage.py COMMAND …` of a page, without the first word. A remark after it may name more of its flags."""
    found = re.findall(r"manage\.py ([a-z_]+[^`\n]*)", "\n".join([*inline(text), *lines(text)]))
    return [words.strip() for words in found]


def flags_alone(text: str) -> set[str]:
    return {words.split()[0].split("=")[0] for words in inline(text) if re.match(r"--[a-z]", words)}


# --- Targets ----------------------------------------------------------------------------------------------
def targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def targets_named(text: str) -> set[str]:
    """The first word after `make` that is neither an option, with its value, nor a variable."""
    found: set[str] = set()
    for written in [*inline(text), *lines(text)]:
        for call in re.findall(r"(?:^|[\s;&]|-- )make ([^#;&|]+)", written):
            words = shlex.split(call.replace("…", ""))
            if words[:1] == ["-C"]:
                words = words[2:]
            found.update(word for word in words[:1] if "=" not in word)
    return found


# --- Links ------------------------------------------------------------------------------------------------
def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(text))


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
