"""One plan for a pair of folders: what the one folder has as well goes from the other."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from duplicates.facts import Place
from duplicates.filtering import Filter
from duplicates.folder_pairs import LEFT, RIGHT, ShownPair, Side, shared_keys
from duplicates.models import Action, IgnoredGroup, Plan, group_key
from duplicates.planning import MOST_KEYS, make_plan
from libraries.errors import Refused
from libraries.names import to_display

#: How long a person waits for the contents to be named one by one.
NAMING_SECONDS = 3.0


def plan_for(shown: ShownPair, *, actor: str, remove_from: str = LEFT) -> Plan:
    """Ask for the plan. Raises `Refused` with the reason.

    It names the contents that both folders have. Where those are too many it takes all groups with a file in the one
    and a copy in the other's library: then a file may also go because a third folder has it.
    """
    if remove_from not in (LEFT, RIGHT):
        raise Refused(_("A plan takes files from the one folder or from the other."))
    if remove_from == RIGHT:
        shown = ShownPair(shown.pair, shown.right, shown.left)
    giving, keeping = shown.left, shown.right
    if not _may_give(giving.place, giving.folder):
        words = _("Nothing below “%(folder)s” may be removed: it is protected, or in a backup library.")
        raise Refused(words % {"folder": to_display(giving.folder or giving.place.name)})
    keys = shared_keys(shown, MOST_KEYS, NAMING_SECONDS)
    if keys is not None:
        keys = _not_ignored(keys)
    if keys == []:
        raise Refused(_("These folders share nothing any more that is not ignored. Search again."))
    wanted: dict[str, Any] = {"group_keys": keys} if keys else {"filter": _filter(giving, keeping)}
    return make_plan(actor=actor, action=Action.TRASH, rules=rules_for(giving, keeping), **wanted)


def _not_ignored(keys: list[str]) -> list[str]:
    """Without contents that somebody said are no problem: a filter leaves them out too."""
    digests = [bytes.fromhex(key.partition(":")[2]) for key in keys]
    rows = IgnoredGroup.objects.filter(content_hash__in=digests).values_list("hash_algorithm", "content_hash")
    ignored = {group_key(algorithm, bytes(digest)) for algorithm, digest in rows}
    return [key for key in keys if key not in ignored]


def rules_for(giving: Side, keeping: Side) -> list[dict[str, Any]]:
    return [
        {"kind": "keep_in", "folders": [{"library": keeping.place.id, "path": keeping.folder}]},
        {"kind": "remove_only_under", "folders": [{"library": giving.place.id, "path": giving.folder}]},
    ]


def _filter(giving: Side, keeping: Side) -> str:
    return Filter(library=giving.place.id, folder=giving.folder, copy_in=keeping.place.id).query()


def _may_give(place: Place, folder: str) -> bool:
    return place.role == "normal" and not place.protects(f"{folder}/")
