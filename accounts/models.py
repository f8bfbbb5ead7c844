"""People, what they may do, and the tokens of their scripts."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db import models, transaction
from django.db.models import ExpressionWrapper, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from database.clock import SecondsFromNow
from logbook.models import write_event

TOKEN_PREFIX = "dfs_"  # noqa: S105  a mark to recognise tokens by, not a token
#: A token's last use is written at most this often: reading by API must not become writing.
USE_NOTED_EVERY_SECONDS = 60


class Role(models.TextChoices):
    """What somebody may do; each role may do all that the ones before it may."""

    VIEWER = "viewer", _("viewer")
    OPERATOR = "operator", _("operator")
    ADMIN = "admin", _("admin")

    def covers(self, needed: Role) -> bool:
        ladder = list(Role)
        return ladder.index(self) >= ladder.index(needed)

    def up_to(self) -> list[Role]:
        """The roles this one may hand on."""
        return [role for role in Role if self.covers(role)]


class LastAdmin(Exception):
    """Without this person nobody could let others in again."""


class UserManager(BaseUserManager["User"]):
    def create_user(self, username: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(username=self.model.normalize_username(username), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, username: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(username, password, role=Role.ADMIN, **fields)

    def add_person(self, username: str, role: Role, *, actor: str) -> tuple[User, str]:
        """Let somebody in; the first password is returned here, can't be had again, and must be changed."""
        password = first_password()
        with transaction.atomic():
            user = self.create_user(username, password, role=role, must_change_password=True)
            user.write("person_added", actor, role=role.value)
        return user, password


def first_password() -> str:
    """Random, and short enough to be read out: almost 80 bits in groups of four, without look-alikes."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(alphabet) for _ in range(4)) for _ in range(4))


class User(AbstractBaseUser):
    """Somebody who may log in. The role is the whole of their rights: no groups, no single permissions."""

    username = models.CharField(max_length=150, unique=True, validators=[UnicodeUsernameValidator()])
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER, db_default=Role.VIEWER)
    is_active = models.BooleanField(default=True, db_default=True)
    must_change_password = models.BooleanField(default=False, db_default=False)
    date_joined = models.DateTimeField(db_default=Now())

    USERNAME_FIELD = "username"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    objects = UserManager()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(role__in=Role.values), name="ck_accounts_user_role")]

    def __str__(self) -> str:
        return self.username

    def may(self, needed: Role) -> bool:
        return self.is_active and Role(self.role).covers(needed)

    def change_role(self, role: Role, *, actor: str) -> None:
        with transaction.atomic():
            if role != Role.ADMIN:
                self._leave_another_admin()
            was, self.role = self.role, role
            self.save(update_fields=["role"])
            self.write("role_changed", actor, role_from=was, role_to=role.value)

    def activate(self, *, actor: str) -> None:
        with transaction.atomic():
            self.is_active = True
            self.save(update_fields=["is_active"])
            self.write("activated", actor)

    def deactivate(self, *, actor: str) -> None:
        """Shut somebody out, with their sessions and tokens; their name stays in the records."""
        with transaction.atomic():
            self._leave_another_admin()
            self.is_active = False
            self.save(update_fields=["is_active"])
            self.write("deactivated", actor)

    def choose_password(self, password: str) -> None:
        """A password of one's own: the one made for them, if there was one, no longer has to be changed."""
        with transaction.atomic():
            self.set_password(password)
            self.save(update_fields=["password"])
            self.note_password_change(actor=self.username)

    def note_password_change(self, *, actor: str) -> None:
        with transaction.atomic():
            self.must_change_password = False
            self.save(update_fields=["must_change_password"])
            self.write("password_changed", actor)

    def reset_password(self, *, actor: str) -> str:
        """For somebody who forgot theirs: a new first password, returned here and never again."""
        password = first_password()
        with transaction.atomic():
            self.set_password(password)
            self.must_change_password = True
            self.save(update_fields=["password", "must_change_password"])
            self.write("password_reset", actor)
        return password

    def write(self, event_type: str, actor: str | None, **payload: Any) -> None:
        """One line of this person's history."""
        write_event(self._meta.db_table, str(self.pk), event_type, actor=actor, title=self.username, **payload)

    def _leave_another_admin(self) -> None:
        """Two admins who dismiss each other at once wait here for one another: one of them remains."""
        admins = User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).order_by("pk")
        if list(admins.values_list("pk", flat=True)) == [self.pk]:
            raise LastAdmin

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
        return self.with_use_due().living().select_related("user").filter(digest=digest_of(secret)).first()

    def with_use_due(self) -> ApiTokenQuerySet:
        """`is_use_due`: the last use on record is old.

        Asked while reading, since on SQLite even an UPDATE that changes no row takes the one write lock.
        """
        due = Q(last_used_at__isnull=True) | Q(last_used_at__lt=SecondsFromNow(-USE_NOTED_EVERY_SECONDS))
        return self.annotate(is_use_due=ExpressionWrapper(due, output_field=models.BooleanField()))


def digest_of(secret: str) -> str:
    """A token has 256 random bits, so one round of SHA-256 hides it as well as a slow hash would."""
    return hashlib.sha256(secret.encode()).hexdigest()


class ApiToken(models.Model):
    """A script's key. Only its digest is kept; it may do what its role allows, never more than its owner."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER, db_default=Role.VIEWER)
    #: Whether it may authorise acting on files; without this right only a person in a browser may.
    may_authorise = models.BooleanField(default=False, db_default=False)
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=12)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="ck_accounts_apitoken_role"),
            # The logbook names tokens; and a form sent twice makes one.
            models.UniqueConstraint(
                fields=["user", "name"],
                condition=Q(revoked_at__isnull=True),
                name="ux_accounts_apitoken_living_name",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

    @classmethod
    def issue(cls, user: User, name: str, role: Role, *, may_authorise: bool = False) -> tuple[ApiToken, str]:
        """Make a token; the secret is returned here and can't be had again."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        right = {"may_authorise": True} if may_authorise else {}
        with transaction.atomic():
            token = cls.objects.create(
                user=user, name=name, role=role, digest=digest_of(secret), hint=secret[:8], **right
            )
            token.write("token_issued", user.username, role=Role(role).value, **right)
        token.refresh_from_db()
        return token, secret

    def revoke(self, *, actor: str) -> bool:
        """Make it open nothing any more; False where it did not before."""
        with transaction.atomic():
            if not ApiToken.objects.filter(pk=self.pk, revoked_at__isnull=True).update(revoked_at=Now()):
                return False
            self.write("token_revoked", actor)
        return True

    def write(self, event_type: str, actor: str, **payload: Any) -> None:
        title = f"{self.name} of {self.user.username}"
        write_event(self._meta.db_table, str(self.pk), event_type, actor=actor, title=title[:255], **payload)

    def may(self, needed: Role) -> bool:
        return Role(self.role).covers(needed) and self.user.may(needed)

    def note_use(self) -> None:
        """Remember that it was used just now, for a token that came from `for_secret`."""
        if getattr(self, "is_use_due", False):
            type(self).objects.filter(pk=self.pk).update(last_used_at=Now())
