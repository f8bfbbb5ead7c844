"""Every word on our pages goes through the translation: in a language that only puts marks around each message, nothing
but names, numbers and data stands outside of the marks. What no page shows by itself, a refusal, is held to it where it
is raised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from gettext import NullTranslations
from html.parser import HTMLParser

import pytest
from django.apps import apps
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils.translation import trans_real

from duplicates import cursors, filtering, rule_kinds, rule_sets, rules
from frame.templatetags import frame
from jobs import errors as jobs_errors
from libraries import errors as libraries_errors
from tests import factories
from tests.conftest import ROOT
from tests.site.whole_site import Site, empty_site, furnished_site, our_pages
from tests.site.words_given import bare_texts
from thumbnails.originals import OriginalError
from trash.proof_reading import NoProof

pytestmark = pytest.mark.django_db

OPEN, CLOSE = "⟦", "⟧"
CONTEXT = "\x04"
#: Read by people although they are no text of the page.
SPOKEN = {
    "title",
    "aria-label",
    "placeholder",
    "alt",
    "data-done",
    "data-full",
    "data-waiting",
    "data-none",
    "data-name",
}
#: What is between these is no text.
SILENT = {"script", "style", "symbol"}
#: Between these is data, as it is.
AS_IT_IS = {"code", "pre", "samp", "kbd", "time", "textarea", "q"}
DATA_CLASSES = {"mono", "code", "path"}
#: Names: of the product, of what the tests made, of people's units, of algorithms and of columns as a file has them.
NAMES = re.compile(
    r"DedupFS|Django|API|\*copy\*|BLAKE3|SHA-256|SQLite|PostgreSQL|UTC|CSV|JSON|"
    r"\b(?:ada|otto(?:-\d+)?|supervisor|policy|factory|nas(?::\d+)?|photos-\d+|tidy-\d+|script-\d+|uuid-1)\b|"
    r"\b(?:beach|missing-\d+|old|copies|locked|a)\b(?:\.jpg)?|\bjpg\b|"
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{6,}\b|\bdfs_\w+|"
    r"\b(?:kB|MB|GB|TB|PB|EB|B|s)\b|/\S*"
)

#: Pages show what these say, and what all say that are made of them.
SHOWN: list[type[Exception]] = [
    jobs_errors.Refused,
    libraries_errors.NotThere,
    rule_sets.NotThere,
    rule_kinds.WrongRule,
    rules.RulesError,
    filtering.BadFilter,
    cursors.BadCursor,
    cursors.BadGroupKey,
    OriginalError,
    NoProof,
]
#: Refused here is only what somebody asked for at a terminal, which is told in English.
AT_A_TERMINAL = {"libraries/running_now.py", "trash/running_now.py", "trash/acting_here.py"}


class Marking(NullTranslations):
    """A language in which every message is itself, between marks."""

    def gettext(self, message: str) -> str:
        _context, separator, words = message.rpartition(CONTEXT)
        return f"{OPEN}{words if separator else message}{CLOSE}"

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        return self.gettext(singular if number == 1 else plural)

    # What Django asks of a translation besides.
    def language(self) -> str:
        return "en"

    def to_language(self) -> str:
        return "en"


@pytest.fixture
def _marked() -> Iterator[None]:
    """Whatever is translated from here on is marked."""
    trans_real.translation(settings.LANGUAGE_CODE)
    kept = trans_real._translations[settings.LANGUAGE_CODE]  # type: ignore[attr-defined]
    default = trans_real._default  # type: ignore[attr-defined]
    trans_real._translations[settings.LANGUAGE_CODE] = Marking()  # type: ignore[attr-defined]
    trans_real._default = None  # type: ignore[attr-defined]
    trans_real.deactivate()
    # Pills are kept by their language, and this one has the name of a real one.
    frame._pill.cache_clear()
    yield
    frame._pill.cache_clear()
    trans_real._translations[settings.LANGUAGE_CODE] = kept  # type: ignore[attr-defined]
    trans_real._default = default  # type: ignore[attr-defined]


class Outside(HTMLParser):
    """Collects what a person reads that no message holds. A message may hold elements: marks count on through them."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.around: list[tuple[str, bool]] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_data = given.get("translate") == "no" or DATA_CLASSES & set((given.get("class") or "").split())
        for name, value in attrs:
            is_spoken = name in SPOKEN or (name == "value" and given.get("type") == "submit")
            if is_spoken and not is_data:
                self._collect(_outside(value or "", 0)[0])
        if tag not in ("input", "meta", "link", "br", "img", "hr", "use", "path", "rect", "circle", "line"):
            self.around.append((tag, tag in AS_IT_IS or bool(is_data)))

    def handle_endtag(self, tag: str) -> None:
        while self._is_within({tag}) and self.around.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._is_within(SILENT):
            outside, self.depth = _outside(data, self.depth)
            if not any(is_data for _, is_data in self.around):
                self._collect(outside)

    def _is_within(self, tags: set[str]) -> bool:
        return any(tag in tags for tag, _ in self.around)

    def _collect(self, text: str) -> None:
        words = NAMES.sub(" ", text)
        if re.search(r"[^\W\d_]", words):
            self.found.append(text.strip())


def _outside(text: str, depth: int) -> tuple[str, int]:
    """What of a text no mark holds, and how many marks are open at its end."""
    kept = []
    for letter in text:
        depth += (letter == OPEN) - (letter == CLOSE)
        kept.append(letter if depth == 0 and letter != CLOSE else " ")
    return "".join(kept), depth


def words_outside(html: str) -> list[str]:
    reader = Outside()
    reader.feed(html)
    if reader.depth:
        reader.found.append(f"a message that was taken apart ({reader.depth})")
    return reader.found


@pytest.mark.usefixtures("_marked")
@pytest.mark.parametrize("make", [furnished_site, empty_site])
def test_no_word_stands_outside_of_a_message(make: Callable[[], Site]) -> None:
    site = make()
    client = Client()
    client.force_login(site.admin)
    wrong = []
    for address in our_pages(site):
        html = client.get(address).content.decode()
        assert OPEN in html, address
        wrong += [f"{address}: {words}" for words in words_outside(html)]
    assert "\n".join(wrong) == ""


def test_words_outside_are_found() -> None:
    html = f'<p title="plain">{OPEN}Message <b>x</b>{CLOSE} 12 kB <i>bare words</i></p><code>x.y</code>'
    assert words_outside(html) == ["plain", "bare words"]


# --- Refusals ---------------------------------------------------------------------------------------------


def names_of(exceptions: Iterable[type[Exception]]) -> set[str]:
    """With those of all that are made of them."""
    return {name for each in exceptions for name in ({each.__name__} | names_of(each.__subclasses__()))}


def test_what_a_refusal_says_is_translated() -> None:
    rooms = [ROOT / config.name for config in apps.get_app_configs() if (ROOT / config.name).is_dir()]
    names, wrong = names_of(SHOWN), []
    for path in sorted(path for room in rooms for path in room.rglob("*.py") if "management" not in path.parts):
        where = str(path.relative_to(ROOT))
        if where not in AT_A_TERMINAL:
            wrong += [f"{where}:{text}" for text in bare_texts(path.read_text(), names)]
    assert "\n".join(wrong) == ""


@pytest.mark.parametrize(
    "given",
    [
        '"Bare."',
        'f"Bare {name}."',
        '"path", f"Bare {name}."',
        '"Bare %(name)s." % {"name": name}',
        '"Bare {}.".format(name)',
        'name or "Bare."',
        "said",
        "words(name)",
    ],
)
def test_bare_words_of_a_refusal_are_found(given: str) -> None:
    source = f"""
def verb(name):
    said = "Bare."
    raise errors.Refused({given})

def words(name):
    return "Bare." if name else _("Translated.")
"""
    assert len(bare_texts(source, {"Refused"})) == 1


@pytest.mark.parametrize(
    "given", ['_("Words %(name)s.") % {"name": "data"}', '"path", _("Words.")', "name", "str(error)", "said % name", ""]
)
def test_translated_words_of_a_refusal_are_left_alone(given: str) -> None:
    source = f"""
def verb(name):
    said = ngettext("Words.", "More words.", name)
    raise Refused({given})
"""
    assert bare_texts(source, {"Refused"}) == []


@pytest.mark.usefixtures("_marked")
def test_refusals_on_pages_stand_inside_of_messages() -> None:
    client, job = Client(), factories.finished_job()
    client.force_login(empty_site().admin)
    form = {"name": "nas", "path": "/etc", "role": "normal", "schedule": "none"}
    asked = [
        ("/libraries/add/", form, "/etc is not below"),
        ("/libraries/add/", {**form, "schedule": "cron", "scan_cron": "1 2 3"}, "it needs five"),
        (f"/jobs/{job.pk}/cancel/", {}, "This job is completed"),
    ]
    for address, sent, words in asked:
        html = client.post(address, sent, follow=True).content.decode()
        assert words in html
        assert words_outside(html) == []


@pytest.mark.usefixtures("_marked")
def test_requests_that_are_turned_away_are_told_so_in_messages() -> None:
    strict = Client(enforce_csrf_checks=True, headers={"origin": "http://elsewhere"})
    unsent = strict.post(reverse("accounts:login"))
    unknown = Client(headers={"host": "elsewhere"}).get("/")
    assert (unsent.status_code, unknown.status_code) == (403, 400)
    for answer in (unsent, unknown):
        lines = answer.content.decode().splitlines()
        assert len(lines) > 1
        assert [line for line in lines if not line.startswith(OPEN) or not line.endswith(CLOSE)] == []
