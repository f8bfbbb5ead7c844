"""Numbers and times in people's units, with the exact value one hover, tap or focus away.

`now` is always handed in, and comes from the database like the time it is compared with (`database.clock`).
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django import template
from django.utils import timezone
from django.utils.formats import get_format, number_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django.utils.translation import gettext as _

register = template.Library()

NOTHING = mark_safe('<span class="none">\N{EN DASH}</span>')
UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")
MINUTE, HOUR, DAY = 60, 3600, 86400
#: Up to here counts are shown to the last digit; beyond, they are rounded.
EXACT_UP_TO = 10_000_000


# --- Words ------------------------------------------------------------------------------------------------
def size_words(count: int) -> str:
    """Decimal units, as disks are sold: 1.4 TB."""
    value, unit = float(abs(count)), "B"
    for larger in UNITS:
        # What would round to 1000.0 belongs to the next unit.
        if round(value, 1) < 1000:
            break
        value, unit = value / 1000, larger
    number = str(int(value)) if unit == "B" else _tenths(value)
    return f"{_minus(count)}{number} {unit}"


def count_words(count: int) -> str:
    if abs(count) < EXACT_UP_TO:
        return f"{_minus(count)}{_grouped(abs(count))}"
    millions = _tenths(abs(count) / 1_000_000)
    return f"{_minus(count)}{_('%(number)s million') % {'number': millions}}"


def duration_words(seconds: float) -> str:
    """The two largest units: 3 min 20 s."""
    length = abs(seconds)
    whole = int(length)
    if length < 1:
        words = _("%(count)s s") % {"count": _tenths(int(length * 10) / 10)} if length >= 0.1 else _("0 s")
    elif whole < MINUTE:
        words = _("%(count)s s") % {"count": whole}
    elif whole < HOUR:
        words = _pair(whole, MINUTE, _("%(count)s min"), 1, _("%(count)s s"))
    elif whole < DAY:
        words = _pair(whole, HOUR, _("%(count)s h"), MINUTE, _("%(count)s min"))
    else:
        words = _pair(whole, DAY, _("%(count)s d"), HOUR, _("%(count)s h"))
    return f"{_minus(seconds)}{words}"


def ago_words(moment: datetime, now: datetime) -> str:
    seconds = (now - moment).total_seconds()
    length = abs(seconds)
    if length >= 30 * DAY:
        return timezone.localtime(moment).strftime("%Y-%m-%d")
    if length < 5:
        return _("just now") if seconds >= 0 else _("in a moment")
    span = _span(int(length))
    return _("%(span)s ago") % {"span": span} if seconds >= 0 else _("in %(span)s") % {"span": span}


def exact_time(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%Y-%m-%d %H:%M:%S %Z")


def _span(seconds: int) -> str:
    """The largest unit alone: how long ago needs no more."""
    if seconds < MINUTE:
        return _("%(count)s s") % {"count": seconds}
    if seconds < HOUR:
        return _("%(count)s min") % {"count": seconds // MINUTE}
    if seconds < DAY:
        return _("%(count)s h") % {"count": seconds // HOUR}
    return _("%(count)s d") % {"count": seconds // DAY}


def _pair(whole: int, large: int, large_words: str, small: int, small_words: str) -> str:
    words = large_words % {"count": whole // large}
    rest = whole % large // small
    return f"{words} {small_words % {'count': rest}}" if rest else words


def _minus(value: float) -> str:
    return "\N{MINUS SIGN}" if value < 0 else ""


def _tenths(value: float) -> str:
    """Rounded first: Django's own formatting cuts off."""
    return _number(round(value, 1), 1)


def _grouped(count: int) -> str:
    return _number(count, 0)


def _number(value: float, digits: int) -> str:
    """As `number_format` writes it, which looks up how a language does that anew for each of a page's many numbers."""
    signs = _signs(get_language())
    if signs is None:
        return number_format(value, digits, force_grouping=True)
    return f"{value:,.{digits}f}".translate(signs)


@lru_cache(maxsize=64)
def _signs(_language: str | None) -> dict[int, str] | None:
    """What the current language writes for the comma and the point; None where it groups other than by three."""
    if get_format("NUMBER_GROUPING") != 3:
        return None
    return {ord(","): str(get_format("THOUSAND_SEPARATOR")), ord("."): str(get_format("DECIMAL_SEPARATOR"))}


# --- Filters ----------------------------------------------------------------------------------------------
@register.filter
def size(count: int | None) -> SafeString:
    """`1.4 TB`, and the bytes on hover."""
    if count is None:
        return NOTHING
    return _exactly(size_words(count), _("%(count)s bytes") % {"count": f"{_minus(count)}{_grouped(abs(count))}"})


@register.filter
def size_text(count: int) -> str:
    """`1.4 TB` alone, for what only the eye reads: nothing there may take the focus."""
    return size_words(count)


@register.filter
def count(number: int | None) -> SafeString:
    """`1,284,310`; `12.8 million` with the exact number on hover."""
    if number is None:
        return NOTHING
    words = count_words(number)
    exact = f"{_minus(number)}{_grouped(abs(number))}"
    return format_html("{}", words) if words == exact else _exactly(words, exact)


@register.filter
def duration(length: timedelta | float | None) -> SafeString:
    """`3 min 20 s`, and the seconds on hover."""
    if length is None:
        return NOTHING
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    exact = _("%(count)s seconds") % {"count": _tenths(seconds)}
    return _exactly(duration_words(seconds), exact)


@register.filter
def ago(moment: datetime | None, now: datetime) -> SafeString:
    """`3 min ago` or `in 3 min`, and the exact time on hover."""
    if moment is None:
        return NOTHING
    words = escape(ago_words(moment, now))
    return SafeString(
        f'<time class="exact" datetime="{moment.isoformat()}" title="{escape(exact_time(moment))}" tabindex="0">'
        f"{words}</time>"
    )


@register.filter
def at(moment: datetime | None) -> SafeString:
    """The exact time itself, where it is what one looks for."""
    if moment is None:
        return NOTHING
    return format_html('<time datetime="{}">{}</time>', moment.isoformat(), exact_time(moment))


@register.filter
def as_json(value: Any) -> str:
    """For people: indented, and in the alphabet it was written in."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _exactly(words: str, exact: str) -> SafeString:
    return SafeString(f'<span class="exact" title="{escape(exact)}" tabindex="0">{escape(words)}</span>')
