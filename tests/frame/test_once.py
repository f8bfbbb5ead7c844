"""What every row of a page has is rendered once, and once for each page."""

from __future__ import annotations

from django.template import Context, Template
from django.utils.translation import override

ROWS = "{% load frame i18n %}{% for row in rows %}{% once %}[{{ word }}]{% endonce %}{{ row }}{% endfor %}"


def rendered(text: str, **values: object) -> str:
    return Template(text).render(Context(values))


def test_later_rows_get_what_the_first_one_was_given() -> None:
    text = "{% load frame %}{% for row in rows %}{% once %}<{{ row }}>{% endonce %}{{ row }}{% endfor %}"
    assert rendered(text, rows="abc") == "<a>a<a>b<a>c"


def test_two_of_them_are_two() -> None:
    text = "{% load frame %}{% for row in rows %}{% once %}x{% endonce %}{% once %}y{% endonce %}{% endfor %}"
    assert rendered(text, rows="ab") == "xyxy"


def test_another_page_begins_anew() -> None:
    template = Template(ROWS)
    assert template.render(Context({"rows": "ab", "word": "one"})) == "[one]a[one]b"
    assert template.render(Context({"rows": "ab", "word": "two"})) == "[two]a[two]b"


def test_it_holds_in_templates_that_are_included_for_each_row() -> None:
    inner = Template("{% load frame %}{% once %}<{{ row }}>{% endonce %}{{ row }}")
    text = "{% for row in rows %}{% include inner %}{% endfor %}"
    assert rendered(text, rows="ab", inner=inner) == "<a>a<a>b"


def test_values_are_escaped_as_anywhere() -> None:
    assert rendered(ROWS, rows="a", word="<b>") == "[&lt;b&gt;]a"


def test_words_are_those_of_the_language_of_the_page() -> None:
    template = Template("{% load frame i18n %}{% once %}{% translate 'Monday' %}{% endonce %}")
    with override("de"):
        assert template.render(Context()) == "Montag"
    with override("fr"):
        assert template.render(Context()) == "lundi"
