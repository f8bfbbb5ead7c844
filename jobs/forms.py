"""What people ask of the jobs' pages."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from jobs.models import Job


class JobFilter(forms.Form):
    """The filters in the address of the list."""

    kind = forms.ChoiceField(choices=[("", _("All")), *Job.Kind.choices], required=False)
    status = forms.ChoiceField(choices=[("", _("All")), *Job.Status.choices], required=False)

    def conditions(self) -> dict[str, str]:
        return {name: value for name, value in self.cleaned_data.items() if value}


class ReasonForm(forms.Form):
    """Why somebody decides so; it goes into the logbook."""

    reason = forms.CharField(max_length=500, required=False)
