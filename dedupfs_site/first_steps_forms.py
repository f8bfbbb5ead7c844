"""The first library in three fields; all the rest has a good start of its own and can be changed later."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from libraries import picking
from libraries.forms import ROLES


class FirstLibraryForm(forms.Form):
    folder = forms.CharField(widget=forms.HiddenInput)
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=255,
        help_text=gettext_lazy("How it is called on every page. It can be changed at any time."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    role = forms.ChoiceField(
        label=gettext_lazy("Role"), choices=[(value, label) for value, label, _why in ROLES], initial="normal"
    )

    def clean_folder(self) -> bytes:
        try:
            return picking.parse(self.cleaned_data["folder"])
        except picking.NoSuchFolder as refusal:
            raise forms.ValidationError(str(refusal)) from None

    def refuse(self, refusal: Exception) -> None:
        """Say it at the field it is about, or above all of them."""
        named: Any = getattr(refusal, "field", None)
        self.add_error(named if named in ("name", "role") else None, str(refusal))
