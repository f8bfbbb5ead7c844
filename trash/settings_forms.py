"""What admins fill in on the settings page."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from trash.switching import MOST_DAYS


class SwitchesForm(forms.Form):
    is_acting_allowed = forms.BooleanField(
        label=_("Plans may be carried out: move files to trash, replace them by hard links"),
        required=False,
        help_text=_("Each plan still needs an admin who types its number of files. Everything can be undone."),
    )
    is_removing_allowed = forms.BooleanField(
        label=_("Files may be removed for good: by plans that delete, and by emptying the trash"),
        required=False,
        help_text=_("This can't be undone. Each time an admin types the number of files."),
    )
    empty_after_days = forms.IntegerField(
        label=_("Let the command empty_trash remove what is older than this, without asking again"),
        required=False,
        min_value=1,
        max_value=MOST_DAYS,
        help_text=_("Days in the trash. Left empty, nothing is ever emptied unless an admin authorises it each time."),
        widget=forms.NumberInput(attrs={"inputmode": "numeric", "class": "days"}),
    )
