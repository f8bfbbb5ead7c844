"""A library's settings: what may be chosen, and the verbs that change it, pause it and let it go on."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from libraries.errors import NotThere, Refused
from libraries.excluding import Exclusions
from libraries.models import HashState, LibraryRoot
from libraries.names import to_bytes, to_display, to_text
from logbook.models import write_event

ITEM = "library_roots"
NAME_CHARACTERS = 255
CRON_CHARACTERS = 255
LARGEST = 2**63 - 1
LIST_CHARACTERS = 100_000
SCHEDULE = ("scan_interval_minutes", "scan_cron")


class WrongValue(Refused):
    """A choice that can't be used; `field` says which, for a form that shows it there."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


# --- Verbs ------------------------------------------------------------------------------------------------
def change(library_id: int, *, actor: str, **values: Any) -> LibraryRoot:
    """Change what is given; the logbook keeps what it was before."""
    with transaction.atomic():
        library = find(library_id)
        chosen = checked(values, library)
        changes = {key: [getattr(library, key), value] for key, value in chosen.items()}
        changes = {key: pair for key, pair in changes.items() if pair[0] != pair[1]}
        if changes:
            save(library, {key: new for key, (_old, new) in changes.items()})
            if chosen.get("hash_everything"):
                HashState.objects.ask()
            write_event(ITEM, str(library.pk), "changed", actor=actor, title=library.name, changes=changes)
    return library


def pause(library_id: int, *, actor: str) -> LibraryRoot:
    """No schedule submits it until it is resumed. To pause twice is to pause."""
    return _set_paused(library_id, actor, "paused", is_paused=True)


def resume(library_id: int, *, actor: str) -> LibraryRoot:
    return _set_paused(library_id, actor, "resumed", is_paused=False)


def _set_paused(library_id: int, actor: str, event: str, *, is_paused: bool) -> LibraryRoot:
    with transaction.atomic():
        library = find(library_id)
        if library.is_paused != is_paused:
            save(library, {"is_paused": is_paused})
            plan(library)
            if not is_paused:
                HashState.objects.ask()
            write_event(ITEM, str(library.pk), event, actor=actor, title=library.name)
    return library


def find(library_id: int) -> LibraryRoot:
    """The library, locked until the transaction ends; one that is being removed is gone for everybody."""
    library = LibraryRoot.objects.kept().select_for_update().filter(pk=library_id).first()
    if library is None:
        raise NotThere(_("There is no library %(id)s.") % {"id": library_id})
    return library


def save(library: LibraryRoot, values: Mapping[str, Any]) -> None:
    try:
        with transaction.atomic():
            LibraryRoot.objects.filter(pk=library.pk).update(updated_at=Now(), **values)
    except IntegrityError:
        raise _name_taken(values.get("name", library.name)) from None
    library.refresh_from_db()
    if any(column in values for column in SCHEDULE):
        plan(library)


def plan(library: LibraryRoot) -> None:
    """Set when the schedule runs next."""
    from libraries import scheduling

    scheduling.plan(library)
    library.refresh_from_db()


# --- What may be chosen -----------------------------------------------------------------------------------
def checked(values: Mapping[str, Any], library: LibraryRoot | None = None) -> dict[str, Any]:
    """The values as they are stored. Raises `Refused` with the reason for the first that can't be used."""
    unknown = sorted(set(values) - set(_CHECKS))
    if unknown:
        raise Refused(_("A library has no %(names)s that could be chosen.") % {"names": ", ".join(unknown)})
    root = None if library is None else to_bytes(library.root_path)
    chosen = {key: _CHECKS[key](value, root) for key, value in values.items()}
    if "name" in chosen and _is_taken(chosen["name"], library):
        raise _name_taken(chosen["name"])
    if any(key in chosen for key in SCHEDULE):
        _check_schedule(chosen, library)
    return chosen


def _is_taken(name: str, library: LibraryRoot | None) -> bool:
    others = LibraryRoot.objects.filter(name=name)
    return (others if library is None else others.exclude(pk=library.pk)).exists()


def _name_taken(name: str) -> Refused:
    words = _("There is a library “%(name)s” already. Choose another name.")
    return WrongValue("name", words % {"name": to_display(name)})


def _check_schedule(chosen: dict[str, Any], library: LibraryRoot | None) -> None:
    """An interval and a cron expression exclude each other: choosing one of them gives the other up."""
    from libraries import scheduling

    other = {"scan_interval_minutes": ("scan_cron", ""), "scan_cron": ("scan_interval_minutes", 0)}
    for key in SCHEDULE:
        name, nothing = other[key]
        if chosen.get(key) and name not in chosen:
            chosen[name] = nothing
    interval, cron = (
        chosen.get(key, getattr(library, key) if library else nothing)
        for key, nothing in zip(SCHEDULE, (0, ""), strict=True)
    )
    scheduling.check(interval, cron)


def _name(value: Any) -> str:
    name = _text(value, "name").strip()
    if not name:
        raise WrongValue("name", _("A library needs a name."))
    if len(name) > NAME_CHARACTERS:
        words = _("A name may have %(most)d characters; this has %(count)d.")
        raise WrongValue("name", words % {"most": NAME_CHARACTERS, "count": len(name)})
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        words = _("The name “%(name)s” holds control characters. Leave them out.")
        raise WrongValue("name", words % {"name": to_display(name)})
    return name


def _role(value: Any) -> str:
    if value not in LibraryRoot.Role.values:
        words = _("A library's role is %(known)s; not %(value)s.")
        raise WrongValue("role", words % {"known": ", ".join(LibraryRoot.Role.values), "value": _quoted(value)})
    return str(value)


def _patterns(value: Any) -> str:
    lines = _lines(value, "exclude_patterns")
    try:
        Exclusions(lines)
    except Exception as error:  # whatever a pattern does to the matcher, it is the pattern that is wrong
        words = _("These patterns can't be used: %(error)s") % {"error": error}
        raise WrongValue("exclude_patterns", words) from None
    return "\n".join(lines)


def _folders(value: Any, root: bytes | None) -> str:
    folders = [_folder(line, root) for line in _lines(value, "protected_folders")]
    return "\n".join(dict.fromkeys(folders))


def _folder(line: str, root: bytes | None) -> str:
    """A path below the library. One that is written from the root of the machine is taken where it lies inside."""
    path = to_bytes(line)
    if path.startswith(b"/"):
        if root is None or not path.startswith(root.rstrip(b"/") + b"/"):
            words = _("%(path)s is not in this library. Write the path below its folder.")
            raise WrongValue("protected_folders", words % {"path": to_display(line)})
        path = path[len(root.rstrip(b"/")) :]
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        words = _("%(path)s: write the path without “..”.")
        raise WrongValue("protected_folders", words % {"path": to_display(line)})
    if not parts:
        raise WrongValue("protected_folders", _("To protect the whole library, give it the role protected."))
    return to_text(b"/".join(parts))


def _cron(value: Any) -> str:
    cron = " ".join(_text(value, "scan_cron").split())
    if len(cron) > CRON_CHARACTERS:
        words = _("A cron expression may have %(most)d characters; this has %(count)d.")
        raise WrongValue("scan_cron", words % {"most": CRON_CHARACTERS, "count": len(cron)})
    return cron


def _lines(value: Any, field: str) -> list[str]:
    if not isinstance(value, str) and isinstance(value, Iterable):
        value = "\n".join(_text(each, field) for each in value)
    text = _text(value, field)
    if len(text) > LIST_CHARACTERS:
        raise WrongValue(field, _("This list has more than %(most)d characters.") % {"most": LIST_CHARACTERS})
    # Only line ends divide: a name may hold other characters at which `splitlines` would.
    return [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]


def _text(value: Any, field: str) -> str:
    """Text that every database can store."""
    text = str(value)
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        words = _("“%(text)s” holds a character that can't be stored.")
        raise WrongValue(field, words % {"text": to_display(text[:200])})
    return text


def _whole(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        words = _("%(field)s is a whole number, 0 or larger; not %(value)s.")
        raise WrongValue(field, words % {"field": field, "value": _quoted(value)})
    return value


def _flag(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        words = _("%(field)s is true or false; not %(value)s.")
        raise WrongValue(field, words % {"field": field, "value": _quoted(value)})
    return value


def _quoted(value: Any) -> str:
    """Enough of a value to be recognised."""
    return repr(str(value)[:80])


#: How each value is checked, given also the library's root where there is one.
_CHECKS: dict[str, Callable[[Any, bytes | None], Any]] = {
    "name": lambda value, _root: _name(value),
    "role": lambda value, _root: _role(value),
    "exclude_patterns": lambda value, _root: _patterns(value),
    "min_size_bytes": lambda value, _root: _whole(value, "min_size_bytes"),
    "hash_everything": lambda value, _root: _flag(value, "hash_everything"),
    "takes_young": lambda value, _root: _flag(value, "takes_young"),
    "read_bytes_per_second": lambda value, _root: _whole(value, "read_bytes_per_second"),
    "protected_folders": _folders,
    "scan_interval_minutes": lambda value, _root: _whole(value, "scan_interval_minutes"),
    "scan_cron": lambda value, _root: _cron(value),
}
