"""Pages about who may come in: login, password, tokens, people."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.db import IntegrityError
from django.db.models import F
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from accounts.doorkeeping import client_address
from accounts.forms import FirstPasswordForm, PersonForm, RoleForm, TokenForm
from accounts.guarding import person, role_required
from accounts.models import ApiToken, ApiTokenQuerySet, LastAdmin, Role, User

get_or_post = require_http_methods(["GET", "HEAD", "POST"])


# --- In and out -------------------------------------------------------------------------------------------
@login_not_required
@sensitive_post_parameters("password")
@never_cache
@get_or_post
def log_in(request: HttpRequest) -> HttpResponse:
    """django-axes counts the wrong attempts and answers in our place once there were too many."""
    if request.user.is_authenticated:
        return redirect(_wanted_page(request))
    form = AuthenticationForm(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        user = form.get_user()
        login(request, user)
        user.write("logged_in", user.username, address=client_address(request))
        return redirect(_wanted_page(request))
    return render(request, "accounts/login.html", {"form": form, "next": _wanted(request)})


def _wanted(request: HttpRequest) -> str:
    return request.POST.get("next", request.GET.get("next", ""))


def _wanted_page(request: HttpRequest) -> str:
    """Where they were going, if that is one of our own pages."""
    wanted = _wanted(request)
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure()):
        return wanted
    return resolve_url(settings.LOGIN_REDIRECT_URL)


@require_POST
@role_required(Role.VIEWER)
def log_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@sensitive_post_parameters()
@never_cache
@get_or_post
@role_required(Role.VIEWER)
def password(request: HttpRequest) -> HttpResponse:
    """One's own password. Other sessions of the same person end with the old one; this one goes on."""
    user = person(request)
    is_first = user.must_change_password
    form_class = FirstPasswordForm if is_first else PasswordChangeForm
    form = form_class(user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        user.choose_password(form.cleaned_data["new_password1"])
        update_session_auth_hash(request, user)
        messages.success(request, _("Your password is changed."))
        return redirect(_first_page(user) if is_first else "accounts:password")
    return render(request, "accounts/password.html", {"form": form, "is_first": is_first})


def _first_page(user: User) -> str:
    """Whoever can add the first library is led to it; that page knows whether there is one already."""
    return "first_steps:begin" if user.may(Role.ADMIN) else settings.LOGIN_REDIRECT_URL


# --- Tokens -----------------------------------------------------------------------------------------------
@never_cache
@get_or_post
@role_required(Role.VIEWER)
def tokens(request: HttpRequest) -> HttpResponse:
    user = person(request)
    form = TokenForm(user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            return _issue(request, form)
        except IntegrityError:  # the same form, sent twice at once
            form.add_error("name", _("You have a token of this name."))
    return _tokens_page(request, form=form)


@sensitive_variables("secret")
def _issue(request: HttpRequest, form: TokenForm) -> HttpResponse:
    """The answer to the form is the only place where the secret is ever shown."""
    wanted = form.cleaned_data
    token, secret = ApiToken.issue(
        form.user, wanted["name"], Role(wanted["role"]), may_authorise=wanted.get("may_authorise", False)
    )
    return _tokens_page(request, form=TokenForm(form.user), issued=token, secret=secret)


def _tokens_page(request: HttpRequest, **context: Any) -> HttpResponse:
    user = person(request)
    context |= {"tokens": _tokens_seen_by(user).annotate(now=Now()), "is_everybodys": user.may(Role.ADMIN)}
    return render(request, "accounts/tokens.html", context)


def _tokens_seen_by(user: User) -> ApiTokenQuerySet:
    """One's own; an admin sees everybody's. Those that still open something come first."""
    seen = ApiToken.objects.all() if user.may(Role.ADMIN) else ApiToken.objects.filter(user=user)
    return seen.select_related("user").order_by(F("revoked_at").desc(nulls_first=True), "-id")


@require_POST
@role_required(Role.VIEWER)
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(_tokens_seen_by(person(request)), pk=pk)
    if token.revoke(actor=person(request).username):
        messages.success(request, _("The token “%(name)s” is revoked.") % {"name": token.name})
    else:
        messages.info(request, _("The token “%(name)s” was revoked before.") % {"name": token.name})
    return redirect("accounts:tokens")


# --- People -----------------------------------------------------------------------------------------------
@never_cache
@get_or_post
@role_required(Role.ADMIN)
def people(request: HttpRequest) -> HttpResponse:
    form = PersonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return _add(request, form)
    return _people_page(request, form=form)


@sensitive_variables("first_password")
def _add(request: HttpRequest, form: PersonForm) -> HttpResponse:
    """The answer to the form is the only place where the first password is ever shown."""
    wanted = form.cleaned_data
    user, first_password = User.objects.add_person(
        wanted["username"], Role(wanted["role"]), actor=person(request).username
    )
    return _people_page(request, form=PersonForm(), shown_person=user, first_password=first_password)


def _people_page(request: HttpRequest, **context: Any) -> HttpResponse:
    everybody = User.objects.annotate(now=Now()).order_by("-is_active", "username")
    return render(request, "accounts/people.html", {"people": everybody, "roles": Role.choices, **context})


@require_POST
@role_required(Role.ADMIN)
def change_role(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("There is no such role."))
        return redirect("accounts:people")
    try:
        user.change_role(Role(form.cleaned_data["role"]), actor=person(request).username)
    except LastAdmin:
        messages.error(request, _last_admin(user))
    else:
        said = _("%(name)s is now %(role)s.") % {"name": user.username, "role": Role(user.role).label}
        messages.success(request, said)
    return redirect("accounts:people")


@require_POST
@role_required(Role.ADMIN)
def deactivate(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    try:
        user.deactivate(actor=person(request).username)
    except LastAdmin:
        messages.error(request, _last_admin(user))
    else:
        messages.success(request, _("%(name)s can't log in any more.") % {"name": user.username})
    return redirect("accounts:people")


@require_POST
@role_required(Role.ADMIN)
def activate(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    user.activate(actor=person(request).username)
    messages.success(request, _("%(name)s can log in again.") % {"name": user.username})
    return redirect("accounts:people")


@sensitive_variables("first_password")
@never_cache
@require_POST
@role_required(Role.ADMIN)
def reset_password(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    first_password = user.reset_password(actor=person(request).username)
    return _people_page(request, form=PersonForm(), shown_person=user, first_password=first_password)


def _last_admin(user: User) -> str:
    said = _("%(name)s is the only active admin: make somebody else an admin first.")
    return said % {"name": user.username}
