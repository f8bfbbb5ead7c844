"""People and tokens in Django's admin: to look at, and to shut out. The pages under "account" do the rest."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.guarding import person
from accounts.models import ApiToken, LastAdmin, User
from frame.admin_links import rows_link
from frame.admin_readonly import ReadOnlyAdmin

# A person's role is the whole of their rights; Django's groups would promise something that nothing reads.
# Importing GroupAdmin has registered them: our room is loaded before Django's.
assert isinstance(admin.site.get_model_admin(Group), GroupAdmin)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(ReadOnlyAdmin[User]):
    list_display = ("username", "role", "is_active", "must_change_password", "last_login", "date_joined", "tokens")
    list_filter = ("role", "is_active")
    search_fields = ("username",)
    ordering = ("username",)
    search_help_text = _("Part of a name")
    actions = ("deactivate", "activate")
    links = ("tokens", "history")
    tokens = rows_link("accounts.apitoken", "user", _("tokens"), _("Their tokens"))

    def hidden(self) -> tuple[str, ...]:
        """Not the password, hashed as it is."""
        return ("password",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """A filter by the beginning of the hash, asked often enough, would tell all of it."""
        return not lookup.startswith("password") and super().lookup_allowed(lookup, value, request)

    @admin.action(description=_("Deactivate the chosen logins"), permissions=["decide"])
    def deactivate(self, request: HttpRequest, chosen: QuerySet[User]) -> None:
        for user in chosen.filter(is_active=True):
            try:
                user.deactivate(actor=person(request).username)
            except LastAdmin:
                said = _("%(name)s is the only active admin: make somebody else an admin first.")
                self.message_user(request, said % {"name": user.username}, messages.ERROR)

    @admin.action(description=_("Activate the chosen logins"), permissions=["decide"])
    def activate(self, request: HttpRequest, chosen: QuerySet[User]) -> None:
        for user in chosen.filter(is_active=False):
            user.activate(actor=person(request).username)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin[ApiToken]):
    list_display = ("name", "user", "role", "may_authorise", "hint", "created_at", "last_used_at", "revoked_at")
    list_filter = ("role", "may_authorise")
    search_fields = ("name", "hint", "user__username")
    search_help_text = _("Part of its name, of its beginning, or of its owner's name")
    actions = ("revoke",)
    links = ("history",)

    def hidden(self) -> tuple[str, ...]:
        """Not the digest."""
        return ("digest",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return not lookup.startswith("digest") and super().lookup_allowed(lookup, value, request)

    @admin.action(description=_("Revoke the chosen tokens"), permissions=["decide"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiToken]) -> None:
        count = sum(token.revoke(actor=person(request).username) for token in chosen.select_related("user"))
        said = ngettext("%(count)d token revoked.", "%(count)d tokens revoked.", count) % {"count": count}
        self.message_user(request, said)
