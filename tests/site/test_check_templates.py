from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings as configured
from django.core.management import call_command
from django.template import Engine
from pytest_django.fixtures import Settings

from dedupfs_site.management.commands.check_templates import problems_of


def engine(folder: Path) -> Engine:
    return Engine(dirs=[str(folder)], libraries=Engine.get_default().libraries)


def test_all_templates_are_well(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("check_templates")
    assert capsys.readouterr().out.endswith(" templates are well.\n")


def test_every_load_more_puts_its_page_into_the_address() -> None:
    folder = Path(configured.BASE_DIR) / "templates"
    lines = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("_*.html")}
    shared = "frame/_load_more.html"
    assert 'hx-replace-url="true"' in lines[shared]
    by_the_shared_part = {name for name, text in lines.items() if f'include "{shared}"' in text}
    by_themselves = {name for name, text in lines.items() if 'hx-target="#more' in text}
    assert len(by_the_shared_part | by_themselves) > 10
    # These two stand on pages of their own, which say so for them, and among the other parts of a library's page.
    elsewhere = {"libraries/_error_rows.html", "libraries/_failure_rows.html"}
    assert {name for name in by_themselves if 'hx-replace-url="true"' not in lines[name]} == elsewhere


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{% if %}", "Unexpected end of expression in if tag."),
        ("{% extends 'nowhere.html' %}", "the template nowhere.html can't be loaded"),
        ("{% if a %}{% include 'nowhere.html' %}{% endif %}", "the template nowhere.html can't be loaded"),
        ("{% load static %}{% static 'css/nowhere.css' %}", "there is no static file css/nowhere.css"),
        ("{% for a in b %}{% url 'nowhere' %}{% endfor %}", "there is no address named nowhere"),
        ("{% url 'nowhere:list' %}", "there is no address named nowhere:list"),
    ],
)
def test_a_broken_template_is_named(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(text)
    assert list(problems_of(engine(tmp_path), "page.html")) == [problem]


def test_names_worked_out_at_run_time_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("{% include name %}{% url 'jobs:list' %}{% url where %}")
    assert list(problems_of(engine(tmp_path), "page.html")) == []


def test_the_command_fails_where_one_is_broken(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.html").write_text("{% nonsense %}")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    with pytest.raises(SystemExit) as end:
        call_command("check_templates")
    assert end.value.code == 1
    assert "broken.html: Invalid block tag" in capsys.readouterr().err
