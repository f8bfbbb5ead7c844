"""Keeps `RESULTS.md`: each benchmark owns one section and replaces it when it is run."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import describe

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = "# What was measured\n\nEach section is written by `make bench`; ratios are taken within one run.\n"


@dataclass(frozen=True)
class Section:
    """One benchmark's result, in Markdown."""

    title: str
    body: str


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(section: Section) -> None:
    """Put `section` in the place of its older self, or at the end."""
    text = RESULTS.read_text() if RESULTS.exists() else HEAD
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    new = f"## {section.title}\n\n{today}, {describe()}.\n\n{section.body.strip()}\n"
    older = re.compile(rf"^## {re.escape(section.title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    text = older.sub(lambda _: new + "\n", text) if older.search(text) else f"{text.rstrip()}\n\n{new}"
    RESULTS.write_text(text.rstrip() + "\n")
