"""The look's rules that a machine can hold: tokens, contrast, nothing inline, and an icon for every name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frame.templatetags.frame import LOOKS, MESSAGE_LOOKS
from jobs.models import Job, WalMaintenanceJob
from libraries.models import LibraryState, ScanRequest, ScanSession
from tests.conftest import ROOT
from thumbnails.models import Thumbnail, ThumbnailCleanupJob

CSS = ROOT / "static" / "css"
TOKENS = (CSS / "tokens.css").read_text()
SHEETS = sorted(sheet.name for sheet in CSS.glob("*.css") if sheet.name != "tokens.css")
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
PAIRS = dict(re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), #[0-9a-f]{6}\)", TOKENS))
DARK = dict(re.findall(r"--([\w-]+): light-dark\(#[0-9a-f]{6}, (#[0-9a-f]{6})\)", TOKENS))
SURFACES = ("surface", "raised", "sunken")
STATES = ("ok", "running", "attention", "danger", "quiet")


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [PAIRS, DARK], ids=["light", "dark"])
def test_text_is_readable_on_every_surface_in_both_themes(theme: dict[str, str]) -> None:
    for surface in SURFACES:
        for ink in ("text", "muted", "accent", *(f"{state}-ink" for state in STATES)):
            assert contrast(theme[ink], theme[surface]) >= 4.5, (ink, surface)
        assert contrast(theme["edge"], theme[surface]) >= 3, ("edge", surface)
    for state in STATES:
        assert contrast(theme[f"{state}-ink"], theme[f"{state}-tint"]) >= 4.5, state
        assert contrast(theme["text"], theme[f"{state}-tint"]) >= 4.5, state
    assert contrast(theme["on-accent"], theme["accent"]) >= 4.5
    assert contrast(theme["raised"], theme["danger-ink"]) >= 4.5


@pytest.mark.parametrize("sheet", SHEETS)
def test_colours_and_sizes_are_written_in_the_tokens_only(sheet: str) -> None:
    rules = re.sub(r"/\*.*?\*/|@media[^{]*", "", (CSS / sheet).read_text(), flags=re.S)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsla?\(|\d+px\b", rules) == []


@pytest.mark.parametrize("sheet", SHEETS)
def test_every_token_that_is_used_exists(sheet: str) -> None:
    css = (CSS / sheet).read_text()
    # Pages build on the components; the frame and the components know the tokens alone.
    shared = "" if sheet in ("frame.css", "components.css") else (CSS / "components.css").read_text()
    known = set(re.findall(r"(--[\w-]+):", TOKENS + shared + css))
    assert set(re.findall(r"var\((--[\w-]+)", css)) <= known


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_templates_have_no_inline_script_or_style(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text, flags=re.I)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_comments_of_templates_end_on_their_line(template: Path) -> None:
    """`{# … #}` over two lines is no comment: Django would show it to everybody."""
    assert all("#}" in line for line in template.read_text().splitlines() if "{#" in line)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_htmx_follows_is_a_link_too(template: Path) -> None:
    for tag in re.findall(r"<a\b[^>]*hx-get[^>]*>", template.read_text()):
        assert "href=" in tag
    assert not re.search(r"<(?!form)\w+[^>]*hx-post", template.read_text())


def test_every_icon_that_is_named_is_drawn() -> None:
    drawn = set(re.findall(r'id="icon-([\w-]+)"', (ROOT / "templates/frame/_icons.html").read_text()))
    named = {look.icon for look in (*LOOKS.values(), *MESSAGE_LOOKS.values())} | set(Job.Kind.values)
    for template in TEMPLATES:
        named |= set(re.findall(r'{% icon "([\w-]+)" %}', template.read_text()))
    from dedupfs_site.navigation import ROOMS

    named |= {room.icon for room in ROOMS}
    assert named <= drawn


def test_every_status_of_every_table_has_a_look() -> None:
    tables = (Job, WalMaintenanceJob, ScanSession, ScanRequest, Thumbnail, ThumbnailCleanupJob)
    assert {status for table in tables for status in table.Status.values} <= set(LOOKS)
    assert set(LibraryState.Mount.values) <= set(LOOKS)
