"""`manage.py rules`: sets of keep rules from a terminal, and as files for another machine."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from duplicates.models import RuleSet
from logbook.models import LogbookEvent
from tests import factories
from tests.conftest import Manage

pytestmark = pytest.mark.django_db


def printed(*arguments: str) -> str:
    out = io.StringIO()
    call_command("rules", *arguments, stdout=out)
    return out.getvalue()


def written(path: Path, rules: Any) -> str:
    file = path / "rules.json"
    file.write_text(rules if isinstance(rules, str) else json.dumps(rules))
    return str(file)


def test_rules_without_sets_says_how_to_make_one() -> None:
    assert "rules save NAME --file FILE" in printed()


def test_saved_rules_are_listed_and_shown_in_words(tmp_path: Path) -> None:
    factories.library("Photos")
    rules = [{"kind": "keep_in", "folders": [{"library": "Photos", "path": "2019"}]}, {"kind": "keep_oldest"}]
    saved = printed("save", "Photos first", "--file", written(tmp_path, rules))
    assert saved == "Photos first\n  1. Keep in folders: Photos/2019\n  2. Keep the oldest\n"
    assert printed() == printed("show", "Photos first") == saved
    events = LogbookEvent.objects.about("rule_sets", str(RuleSet.objects.get().pk))
    assert [event.actor and event.actor.endswith("(command line)") for event in events] == [True]


def test_a_file_of_rules_means_the_same_on_another_machine(tmp_path: Path) -> None:
    old = factories.library("Photos")
    rules = [
        {"kind": "never_touch", "folders": [{"library": old.pk, "path": "caf\uf7e9"}]},
        {"kind": "keep_per", "per": "library"},
    ]
    printed("save", "Mine", "--file", written(tmp_path, rules))
    exported = printed("show", "Mine", "--json")
    assert json.loads(exported)[0]["folders"] == [{"library": "Photos", "path": "caf\uf7e9"}]
    old.delete()
    new = factories.library("Photos")
    assert new.pk != old.pk
    printed("save", "Mine", "--file", written(tmp_path, exported))
    assert RuleSet.objects.get().rules[0]["folders"] == [{"library": new.pk, "path": "caf\uf7e9"}]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"kind": "keep_in", "folders": [{"library": "Nowhere"}]}], "There is no library “Nowhere”"),
        ([{"kind": "keep_oldest"}, {"kind": "eat"}], "Rule 2:"),
        ({"kind": "keep_oldest"}, "Rules are a list"),
        (["keep_oldest"], "Rule 1:"),
        ([{"kind": "keep_in", "folders": ["Photos"]}], "an object with"),
        ("[", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_rules_that_can_not_be_used_are_refused(tmp_path: Path, rules: Any, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        printed("save", "Mine", "--file", written(tmp_path, rules))
    assert not RuleSet.objects.exists()


def test_a_file_that_is_not_there_and_a_set_that_is_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="can't be read"):
        printed("save", "Mine", "--file", str(tmp_path / "none"))
    for verb in ("show", "remove"):
        with pytest.raises(CommandError, match="There is no set of rules “Mine”"):
            printed(verb, "Mine")


def test_removing_a_set_leaves_a_line_in_the_logbook(tmp_path: Path) -> None:
    printed("save", "Mine", "--file", written(tmp_path, []))
    assert "every file stays" in printed("show", "Mine")
    key = RuleSet.objects.get().pk
    assert printed("remove", "Mine") == "“Mine” is removed.\n"
    assert [e.event_type for e in LogbookEvent.objects.about("rule_sets", str(key))] == ["rules_added", "rules_removed"]


def test_rules_can_be_piped_in_a_real_terminal(run_manage: Manage) -> None:
    saved = run_manage("rules", "save", "Mine", "--file", "-", input='[{"kind": "keep_newest"}]')
    assert (saved.returncode, saved.stdout) == (0, "Mine\n  1. Keep the newest\n")
    refused = run_manage("rules", "save", "Mine", "--file", "-", input="[1]")
    assert refused.returncode == 1
    assert "Rule 1:" in refused.stderr
