"""Icons and pills: a state is always icon + word + colour. And `once`, for what every row of a page has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from django import template
from django.template import Context
from django.template.base import NodeList, Parser, Token
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, gettext_noop

register = template.Library()


@dataclass(frozen=True)
class Look:
    """How a status is shown: which of the states' colours, which icon, which word."""

    state: str
    icon: str
    word: str


#: One look for a word, whichever table uses it.
LOOKS = {
    "pending": Look("quiet", "pending", gettext_noop("Pending")),
    "running": Look("running", "running", gettext_noop("Running")),
    "completed": Look("ok", "done", gettext_noop("Completed")),
    "succeeded": Look("ok", "done", gettext_noop("Succeeded")),
    "ready": Look("ok", "done", gettext_noop("Ready")),
    "failed": Look("danger", "failed", gettext_noop("Failed")),
    "authorised": Look("attention", "pending", gettext_noop("Authorised")),
    "done": Look("ok", "done", gettext_noop("Done")),
    "void": Look("danger", "attention", gettext_noop("Void")),
    "stopping": Look("attention", "cancelled", gettext_noop("Stopping")),
    "skipped": Look("attention", "attention", gettext_noop("Skipped")),
    "trashed": Look("quiet", "delete", gettext_noop("In trash")),
    "undone": Look("ok", "again", gettext_noop("Put back")),
    "emptied": Look("quiet", "delete", gettext_noop("Removed for good")),
    "cancelled": Look("quiet", "cancelled", gettext_noop("Cancelled")),
    "retryable": Look("attention", "again", gettext_noop("Retryable")),
    "deleted": Look("quiet", "delete", gettext_noop("Deleted")),
    "alive": Look("ok", "alive", gettext_noop("Alive")),
    "silent": Look("danger", "silent", gettext_noop("Silent")),
    "stopped": Look("quiet", "idle", gettext_noop("Stopped")),
    "paused": Look("quiet", "idle", gettext_noop("Paused")),
    "present": Look("ok", "done", gettext_noop("Present")),
    "absent": Look("danger", "absent", gettext_noop("Absent")),
    "empty": Look("danger", "absent", gettext_noop("Empty")),
    "different": Look("danger", "attention", gettext_noop("Different disk")),
    "unknown": Look("quiet", "lost", gettext_noop("Not seen yet")),
}
MESSAGE_LOOKS = {
    "success": Look("ok", "done", ""),
    "warning": Look("attention", "attention", ""),
    "error": Look("danger", "failed", ""),
}


class Message(Protocol):
    level_tag: str


def look_of(status: str | None) -> Look:
    """A word that nobody described still gets a pill of its own."""
    word = status or ""
    return LOOKS.get(word, Look("quiet", "dot", word.replace("_", " ").capitalize()))


class Once(template.Node):
    """Rendered where it first stands on a page; every later row gets the same text."""

    def __init__(self, nodelist: NodeList) -> None:
        self.nodelist = nodelist

    def render(self, context: Context) -> SafeString:
        # The first of these is the whole answer's, whichever template is at work; `include` keeps its templates there.
        kept: dict[Any, Any] = context.render_context.dicts[0]
        if self not in kept:
            kept[self] = self.nodelist.render(context)
        text: SafeString = kept[self]
        return text


@register.tag
def once(parser: Parser, _token: Token) -> Once:
    """`{% once %}…{% endonce %}` around what is the same in all rows: words, icons, the token of a form. A list of a
    hundred rows would otherwise ask for each of them a hundred times."""
    nodelist = parser.parse(("endonce",))
    parser.delete_first_token()
    return Once(nodelist)


@register.simple_tag
@lru_cache(maxsize=256)
def icon(name: str) -> SafeString:
    """An icon of `frame/_icons.html`; it says nothing by itself, so a word stands beside it."""
    return format_html(
        '<svg class="icon icon-{}" aria-hidden="true" focusable="false"><use href="#icon-{}"/></svg>',
        name,
        name,
    )


@register.simple_tag
def pill(status: str, kind: str = "") -> SafeString:
    """`kind` is "large" for a page's own state, "past" for one that was: it doesn't move."""
    return _pill(status, kind, get_language())


@lru_cache(maxsize=256)
def _pill(status: str, kind: str, _language: str | None) -> SafeString:
    look = look_of(status)
    return format_html(
        '<span class="pill is-{}{}">{}{}</span>',
        look.state,
        f" pill-{kind}" if kind else "",
        icon(look.icon),
        gettext(look.word) if look.word else "",
    )


@register.filter
def state_class(status: str | None) -> str:
    return f"is-{look_of(status).state}"


@register.filter
def status_icon(status: str | None) -> str:
    return look_of(status).icon


@register.filter
def status_word(status: str | None) -> str:
    word = look_of(status).word
    return gettext(word) if word else ""


@register.filter
def message_state(message: Message) -> str:
    return f"is-{_message_look(message).state}"


@register.filter
def message_icon(message: Message) -> str:
    return _message_look(message).icon


def _message_look(message: Message) -> Look:
    return MESSAGE_LOOKS.get(message.level_tag, Look("running", "note", ""))
