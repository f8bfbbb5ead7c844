"""The filter bar: a form that only shows what the address says. `duplicates.filtering` reads it."""

from __future__ import annotations

from collections.abc import Mapping

from django import forms
from django.http import QueryDict
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from duplicates.cursors import ORDERS
from duplicates.filtering import Filter
from duplicates.plan_words import MEDIA_WORDS
from frame.templatetags.human import size_words
from libraries.models import LibraryRoot
from libraries.names import to_display

LEAST_BYTES = (100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
IGNORED_WORDS = (
    ("", gettext_lazy("Left out")),
    ("only", gettext_lazy("Only those")),
    ("all", gettext_lazy("Shown too")),
)
#: What is asked seldom; the bar folds it away unless one of them is set.
FURTHER = ("folder", "extension", "copy_in", "ignored", "spans")


class FilterForm(forms.Form):
    """Each field is named as `Filter` names it, so that the form's address is a filter."""

    library = forms.ChoiceField(label=gettext_lazy("Library"), required=False)
    # Named as in the address; the form's own `media` (its assets) stays what it is.
    media = forms.ChoiceField(label=gettext_lazy("Type"), required=False)  # type: ignore[assignment]
    least_bytes = forms.ChoiceField(label=gettext_lazy("Size"), required=False)
    order = forms.ChoiceField(label=gettext_lazy("Order"), required=False)
    folder = forms.CharField(label=gettext_lazy("Folder in that library"), required=False)
    extension = forms.CharField(label=gettext_lazy("Extension"), required=False, max_length=65)
    copy_in = forms.ChoiceField(label=gettext_lazy("Has a copy in"), required=False)
    ignored = forms.ChoiceField(label=gettext_lazy("Ignored groups"), required=False, choices=IGNORED_WORDS)
    spans = forms.BooleanField(label=gettext_lazy("In more than one library"), required=False)

    def __init__(self, said: Mapping[str, str], order: str) -> None:
        super().__init__(initial={**said, "order": order, "spans": bool(said.get("spans"))}, auto_id="filter-%s")
        libraries = [(str(key), to_display(name)) for key, name in _libraries()]
        self._offer("library", [("", _("All libraries")), *libraries])
        self._offer("copy_in", [("", _("Anywhere")), *libraries])
        self._offer(
            "media", [("", _("All types")), *((name, capfirst(str(words))) for name, words in MEDIA_WORDS.items())]
        )
        self._offer("least_bytes", [("", _("Any size")), *_sizes(said.get("least_bytes", ""))])
        self._offer("order", [(name, order.label) for name, order in ORDERS.items()])
        for name in ("folder", "extension"):
            self.fields[name].widget.attrs |= {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
        self.fields["folder"].widget.attrs |= {"class": "mono", "placeholder": "2019/summer"}
        self.fields["extension"].widget.attrs |= {"class": "mono", "placeholder": "jpg"}
        self.has_further = any(said.get(name) for name in FURTHER)

    def _offer(self, name: str, choices: list[tuple[str, object]]) -> None:
        """These values, and the one that the address says if it is another."""
        said = str(self.initial.get(name) or "")
        if said not in {value for value, _label in choices}:
            choices = [*choices, (said, said)]
        self.fields[name].choices = choices  # type: ignore[attr-defined]


def said_by(chosen: Filter) -> dict[str, str]:
    """What a filter says, as the form shows it: only what differs from the default."""
    return QueryDict(chosen.query()).dict()


def _libraries() -> list[tuple[int, str]]:
    return list(LibraryRoot.objects.kept().order_by("name").values_list("pk", "name"))


def _sizes(said: str) -> list[tuple[str, object]]:
    offered = sorted({*LEAST_BYTES, *([int(said)] if said.isascii() and said.isdecimal() and said != "0" else [])})
    sizes: list[tuple[str, object]] = [
        (str(size), _("%(size)s or more") % {"size": size_words(size)}) for size in offered
    ]
    return [*sizes, ("0", _("Also empty files"))]
