"""What people ask of the maintenance page."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.wal_deciding import allowed_modes


class SpanForm(forms.Form):
    """The query of the page's address."""

    span = forms.ChoiceField(choices=[("", ""), ("week", "week")], required=False)
    table = forms.BooleanField(required=False)


class CheckpointForm(forms.Form):
    """A wish for a checkpoint, in one of the modes that are allowed."""

    mode = forms.ChoiceField(label=gettext_lazy("How"))
    reason = forms.CharField(
        label=gettext_lazy("Reason, for the logbook"), max_length=500, required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )  # fmt: skip
    force = forms.BooleanField(label=gettext_lazy("Even if one was completed a moment ago"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modes = [each for each in _described() if each[0] in allowed_modes()]
        self.fields["mode"].choices = [each[:2] for each in self.modes]  # type: ignore[attr-defined]
        self.fields["mode"].error_messages["invalid_choice"] = _(
            "This mode is not allowed here. To allow it, add it to DEDUPFS_WAL_MODES and start DedupFS again."
        )


def _described() -> list[tuple[str, str, str]]:
    return [
        ("passive", _("Passive"), _("Copies what nobody reads any more. Disturbs nobody.")),
        ("restart", _("Restart"), _("Waits up to 5 s for readers; writers wait too. The log then begins anew.")),
        ("truncate", _("Truncate"), _("The same, and makes the file of the log empty.")),
    ]
