"""People, what they may do, and the tokens of their scripts."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

TOKEN_PREFIX = "dfs_"  # noqa: S105  a mark to recognise tokens by, not a token


class Role(models.TextChoices):
    """What somebody may do; each role may do all that the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        ladder = list(Role)
        return ladder.index(self) >= ladder.index(needed)


class UserManager(BaseUserManager["User"]):
    def create_user(self, username: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(username=self.model.normalize_username(username), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, username: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(username, password, role=Role.ADMIN, **fields)


class User(AbstractBaseUser):
    """Somebody who may log in. The role is the whole of their rights: there are no groups and no single permissions."""

    username = models.CharField(max_length=150, unique=True, validators=[UnicodeUsernameValidator()])
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER, db_default=Role.VIEWER)
    is_active = models.BooleanField(default=True, db_default=True)
    must_change_password = models.BooleanField(default=False, db_default=False)
    date_joined = models.DateTimeField(db_default=Now())

    USERNAME_FIELD = "username"
    REQUIRED_FIELDS: list[str] = []

    objects = UserManager()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(role__in=Role.values), name="ck_accounts_user_role")]

    def __str__(self) -> str:
        return self.username

    def may(self, needed: Role) -> bool:
        return self.is_active and Role(self.role).covers(needed)

    @property
    def is_staff(self) -> bool:
        """Django's admin shows the tables to operators and admins."""
        return self.may(Role.OPERATOR)

    @property
    def is_superuser(self) -> bool:
        return self.may(Role.ADMIN)

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        """Admins may do everything; operators may look."""
        return self.may(Role.ADMIN) or (self.may(Role.OPERATOR) and perm.split(".")[-1].startswith("view_"))

    def has_perms(self, perm_list: list[str], obj: Any = None) -> bool:
        return all(self.has_perm(perm, obj) for perm in perm_list)

    def has_module_perms(self, app_label: str) -> bool:
        return self.is_staff


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def living(self) -> ApiTokenQuerySet:
        return self.filter(revoked_at__isnull=True, user__is_active=True)

    def for_secret(self, secret: str) -> ApiToken | None:
        """The living token that `secret` opens, if there is one."""
        return self.living().select_related("user").filter(digest=digest_of(secret)).first()


def digest_of(secret: str) -> str:
    """A token has 256 random bits, so one round of SHA-256 hides it as well as a slow hash would."""
    return hashlib.sha256(secret.encode()).hexdigest()


class ApiToken(models.Model):
    """A script's key. Only its digest is kept; it can do what its role allows, and never more than its owner."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER, db_default=Role.VIEWER)
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=12)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(role__in=Role.values), name="ck_accounts_apitoken_role")]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

    @classmethod
    def issue(cls, user: User, name: str, role: Role) -> tuple[ApiToken, str]:
        """Make a token; the secret is returned here and can't be had again."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        token = cls.objects.create(user=user, name=name, role=role, digest=digest_of(secret), hint=secret[:8])
        token.refresh_from_db()
        return token, secret

    def may(self, needed: Role) -> bool:
        return Role(self.role).covers(needed) and self.user.may(needed)
