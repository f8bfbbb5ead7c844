"""What the docs name exists: tests, pages, headings, pictures, commands with their flags, targets of make, settings."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.apps import apps

from dedupfs_site.environment import DECLARED
from tests.conftest import ROOT
from tests.site import written
from tests.site.written import PAGES, name_of

NAMED = re.compile(r"`((?:tests/[\w/]+/)?test_\w+\.py)(?:::(\w+))?`")
SETTING = re.compile(r"\bDEDUPFS_[A-Z_]*[A-Z]\b")
#: Not for whoever runs it: what tests tell a process, and the tests' own knobs.
TESTS_OWN = {"DEDUPFS_TESTS", "DEDUPFS_TEST_PROFILE", "DEDUPFS_TEST_SEED", "DEDUPFS_CRASH_POINT", "DEDUPFS_STOP_POINT"}
#: All pictures together, so that a clone stays small and README.md is there at once.
MOST_BYTES = 600_000
#: How many the design's list has.
CAUTIONS = 29
#: The page about other tools names their flags.
ABOUT_OTHERS = "docs/comparison.md"

each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
about_us = pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) != ABOUT_OTHERS], ids=name_of)


@each_page
def test_every_test_a_page_names_is_there(page: Path) -> None:
    for path, function in NAMED.findall(page.read_text()):
        found = [ROOT / path] if "/" in path else list((ROOT / "tests").rglob(path))
        assert found, path
        assert found[0].is_file(), path
        assert not function or f"def {function}(" in found[0].read_text(), f"{path}::{function}"


def test_every_caution_has_a_row_that_names_its_test() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| .+ \| (.+) \|$", (ROOT / "docs/cautions.md").read_text(), re.MULTILINE)
    assert [numbers for numbers, held_by in rows if not re.search(r"`tests/|`test_", held_by)] == []
    assert {int(number) for numbers, _ in rows for number in numbers.split(",")} == set(range(1, CAUTIONS + 1))


# --- Links and pictures -----------------------------------------------------------------------------------


@each_page
def test_every_link_and_picture_leads_somewhere(page: Path) -> None:
    for link in written.links(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            assert anchor in written.anchors(target.read_text()), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        linked = [(page.parent / link.partition("#")[0]).resolve() for link in written.links(page.read_text())]
        waiting += [each for each in linked if each in PAGES and each not in reached]
    assert set(PAGES) - reached == set()


def test_pictures_are_shown_somewhere_and_small() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    pictures = sorted((ROOT / "docs/images").iterdir())
    assert [each.name for each in pictures if f"images/{each.name})" not in text] == []
    assert sum(each.stat().st_size for each in pictures) < MOST_BYTES


def test_the_pictures_of_pages_are_those_that_are_taken() -> None:
    script = (ROOT / "scripts/take_screenshots.py").read_text()
    taken = re.findall(r"^    take\(page, \"([\w-]+)\"", script, re.MULTILINE)
    assert sorted(taken) == sorted(each.stem for each in (ROOT / "docs/images").glob("*.webp"))


@pytest.mark.parametrize("drawing", sorted((ROOT / "docs/images").glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_has_words_for_who_can_not_see_it_and_loads_nothing(drawing: Path) -> None:
    root = ElementTree.parse(drawing).getroot()
    names = [child.tag.rpartition("}")[2] for child in root]
    assert names[:2] == ["title", "desc"]
    assert re.findall(r'(?:href|src)="(?!#)|url\((?!#)|@import|<script', drawing.read_text()) == []


# --- Commands and targets ---------------------------------------------------------------------------------


@each_page
def test_commands_are_there_with_the_flags_shown(page: Path) -> None:
    known, text = written.own_commands(), page.read_text()
    named = written.commands_named(text)
    # `scan --now`: a command of ours that is written without `manage.py`.
    named += [words for words in written.inline(text) if " -" in words and words.split()[0] in known]
    assert [problem for words in named for problem in written.problems(words, known)] == []


@about_us
def test_a_flag_named_alone_belongs_to_some_command(page: Path) -> None:
    known = written.own_commands().values()
    flags = {flag for each in known for flag in each.flags.union(*each.subcommands.values())}
    assert written.flags_alone(page.read_text()) - flags == set()


def test_every_command_of_ours_is_described() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    ours = {name for name in written.own_commands() if name not in ("migrate", "check_templates", "version")}
    assert {name for name in ours if not re.search(rf"`(?:manage\.py )?{name}\b|manage\.py {name}\b", text)} == set()


@each_page
def test_targets_of_make_are_there(page: Path) -> None:
    assert written.targets_named(page.read_text()) - written.targets() == set()


def test_make_help_names_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    assert set(re.findall(r"@echo \"make ([\w-]+)", text)) == written.targets() - {"help", "install-dev"}


# --- Settings ---------------------------------------------------------------------------------------------


def test_every_setting_that_is_named_anywhere_is_one() -> None:
    """Pages, units, messages, templates: a name that nobody reads would send people on a search.
    (That the table has all of them, with their defaults, is for test_settings_documented.py to say.)"""
    rooms = [ROOT / config.name for config in apps.get_app_configs() if (ROOT / config.name).is_dir()]
    code = [path for room in rooms for path in room.rglob("*.py")]
    other = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "deploy").rglob("*"), *(ROOT / "scripts").iterdir()]
    files = [*PAGES, *code, *(path for path in other if path.is_file()), ROOT / "Makefile"]
    named = {name: name_of(path) for path in files for name in SETTING.findall(path.read_text())}
    assert {name: where for name, where in named.items() if name not in {*DECLARED, *TESTS_OWN}} == {}


def test_the_moves_of_the_protocol_are_those_of_the_tables() -> None:
    """A row without a table's name goes on with the one before; what stands in brackets is a remark."""
    section = (ROOT / "docs/protocol.md").read_text().partition("\n## Moves\n")[2].partition("\n## ")[0]
    told: dict[str, dict[str, set[str]]] = {}
    table = ""
    for name, before, after in re.findall(r"^\| (?:`(\w+)` )?\| ([a-z, ]+) \| ([^|]+) \|$", section, re.MULTILINE):
        table = name or table
        moves = set(re.sub(r" \([^)]*\)", "", after).split(", "))
        told.setdefault(table, {}).update(dict.fromkeys(before.split(", "), moves))
    tables = [model for model in apps.get_models() if hasattr(model, "MOVES")]
    real = {model._meta.db_table: {one: set(more) for one, more in model.MOVES.items()} for model in tables}
    assert told == real


# --- Figures ----------------------------------------------------------------------------------------------


#: What docs/comparison.md calls the trees of the benchmarks.
TREES = {"a": "small", "b": "large", "c": "mixed"}


def warm() -> dict[str, str]:
    """The sections of RESULTS.md in which the files were in memory, by what their trees are called."""
    results = (ROOT / "benchmarks/RESULTS.md").read_text()
    found = re.findall(r"^## Tree (\w), warm$(.*?)(?=^## |\Z)", results, re.MULTILINE | re.DOTALL)
    return {TREES[tree]: section for tree, section in found}


def measured(words: str) -> list[float]:
    """How many times the fastest took what is called so, in each tree."""
    row = re.compile(rf"^\| \*\*DedupFS\*\*, {words} \|[^|]*\|[^|]*\| \**([\d.]+)\** \|", re.MULTILINE)
    return [float(times) for section in warm().values() for times in row.findall(section)]


@pytest.mark.parametrize("page", ["README.md", "docs/comparison.md"])
def test_what_is_said_of_speed_was_measured(page: str) -> None:
    text = " ".join((ROOT / page).read_text().split())
    claim = re.search(r"first scan, (?:with|which)[^.]*? takes (\d\.\d)[^\d]* to (\d\.\d) times", text)
    assert claim is not None
    times = measured("`scan --now`") + measured("`scan --now` and `duplicates --fdupes`")
    assert len(times) == 6
    assert float(claim[1]) <= min(times)
    assert max(times) <= float(claim[2])


def test_what_is_said_of_a_second_scan_was_measured() -> None:
    text = " ".join((ROOT / "docs/comparison.md").read_text().split())
    claim = re.search(r"A second scan takes (\d\.\d) to (\d\.\d) times what `jdupes -Q` takes", text)
    assert claim is not None
    times = [round(each, 1) for each in measured("second `scan --now`, against jdupes -Q")]
    assert len(times) == 3
    assert float(claim[1]) <= min(times)
    assert max(times) <= float(claim[2])


def test_a_goal_that_was_missed_is_said_to_be() -> None:
    """A first scan's, by the last column; the sentence in bold names the trees that missed theirs."""
    first = re.compile(r"^\| \*\*DedupFS\*\*, `scan --now`.* (\w+) \|$", re.MULTILINE)
    missed = {tree for tree, section in warm().items() if "MISSED" in first.findall(section)}
    text = " ".join((ROOT / "docs/comparison.md").read_text().split())
    said = re.search(r"\*\*(Missed with [^*]*|All were met)\*\*", text)
    assert said is not None
    assert {tree for tree in TREES.values() if tree in said[1]} == missed
