"""What people fill in about themselves, their tokens and each other."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import SetPasswordForm
from django.utils.translation import gettext_lazy as _

from accounts.models import ApiToken, Role, User


class FirstPasswordForm(SetPasswordForm):  # type: ignore[type-arg]  # generic in the stubs only
    """The first password of one's own. Whoever sees this has just logged in with the one made for them."""

    def clean_new_password1(self) -> str:
        password: str = self.cleaned_data["new_password1"]
        if self.user.check_password(password):
            raise forms.ValidationError(_("Choose another password than the one that was made for you."))
        return password


class TokenForm(forms.Form):
    """A new token of one's own, with a role that one has oneself."""

    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("What uses it, for example the name of a script.")
    )
    role = forms.ChoiceField(label=_("Role"))
    may_authorise = forms.BooleanField(
        label=_("It may authorise acting on files"),
        required=False,
        help_text=_("Only with the role admin. Whoever has this token can then have files moved or removed."),
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        if not user.may(Role.ADMIN):
            del self.fields["may_authorise"]
        self.fields["role"].choices = [(role.value, role.label) for role in Role(user.role).up_to()]  # type: ignore[attr-defined]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if ApiToken.objects.filter(user=self.user, name=name, revoked_at__isnull=True).exists():
            raise forms.ValidationError(_("You have a token of this name. Revoke it first, or choose another name."))
        return name

    def clean(self) -> dict[str, Any]:
        wanted = super().clean() or self.cleaned_data
        if wanted.get("may_authorise") and wanted.get("role") not in (Role.ADMIN, None):
            self.add_error("may_authorise", _("Only a token with the role admin can have this right."))
        return wanted


class PersonForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ["username", "role"]
        labels = {"username": _("Name"), "role": _("Role")}


class RoleForm(forms.Form):
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices)
