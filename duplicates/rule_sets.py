"""Named sets of keep rules: the verbs that save and remove them. Each writes its line into the logbook."""

from __future__ import annotations

import unicodedata
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from duplicates.models import RuleSet
from duplicates.rules import parse
from jobs import errors
from libraries.names import to_display
from logbook.models import write_event

ITEM = "rule_sets"
NAME_CHARACTERS = 100


class Refused(errors.Refused):
    """What was asked for is not possible; the message says why."""


class WrongName(Refused):
    """A name that can't be used."""


class NotThere(Exception):
    """There is no such set."""


def save(name: str, rules: list[dict[str, Any]], *, actor: str, rule_set_id: int | None = None) -> RuleSet:
    """Make a set, or change the one given. Raises `RulesError` or `WrongName`; then nothing is changed.

    Plans hold the rules as they were when they were made: changing a set changes no plan.
    """
    title = checked_name(name)
    stored = [rule.as_json() for rule in parse(rules)]
    with transaction.atomic():
        known = None if rule_set_id is None else find(rule_set_id)
        before = {} if known is None else {"name": known.name, "rules": known.rules}
        after = {"name": title, "rules": stored}
        if known is not None and before == after:
            return known
        saved = _write(known, after, actor)
        changes = {key: [before.get(key), value] for key, value in after.items() if before.get(key) != value}
        event = "rules_added" if known is None else "rules_changed"
        write_event(ITEM, str(saved.pk), event, actor=actor, title=title, changes=changes)
    return saved


def remove(rule_set_id: int, *, actor: str) -> None:
    """The plans that were made with it stay as they are."""
    with transaction.atomic():
        rule_set = find(rule_set_id)
        gone = {"name": rule_set.name, "rules": rule_set.rules}
        write_event(ITEM, str(rule_set.pk), "rules_removed", actor=actor, title=rule_set.name, **gone)
        rule_set.delete()


def find(rule_set_id: int) -> RuleSet:
    """The set, locked until the transaction ends."""
    rule_set = RuleSet.objects.select_for_update().filter(pk=rule_set_id).first()
    if rule_set is None:
        raise NotThere(_("There is no such set of rules."))
    return rule_set


def _write(known: RuleSet | None, values: dict[str, Any], actor: str) -> RuleSet:
    try:
        with transaction.atomic():
            if known is None:
                key = RuleSet.objects.create(created_by=actor, **values).pk
            else:
                key = known.pk
                RuleSet.objects.filter(pk=key).update(updated_at=Now(), **values)
    except IntegrityError:
        words = _("There is a set “%(name)s” already. Choose another name.")
        raise WrongName(words % {"name": to_display(values["name"])}) from None
    return RuleSet.objects.get(pk=key)


def checked_name(value: str) -> str:
    name = value.strip()
    if not name:
        raise WrongName(_("A set of rules needs a name."))
    if len(name) > NAME_CHARACTERS:
        words = _("A name may have %(most)d characters; this has %(count)d.")
        raise WrongName(words % {"most": NAME_CHARACTERS, "count": len(name)})
    if any(unicodedata.category(character) in ("Cc", "Cs", "Co", "Zl", "Zp") for character in name):
        words = _("The name “%(name)s” holds control characters. Leave them out.")
        raise WrongName(words % {"name": to_display(name)})
    return name
