"""What people fill in about a library."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from libraries import picking, scheduling
from libraries.errors import Refused
from libraries.excluding import DEFAULT_PATTERNS
from libraries.models import LibraryRoot
from libraries.names import to_display, to_text

_SIZE = re.compile(r"(\d+(?:[.,]\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
LARGEST = 2**63 - 1
#: A year; a longer wait is no schedule.
MOST_MINUTES = 366 * 24 * 60

ROLES = (
    (
        "normal",
        gettext_lazy("Normal"),
        gettext_lazy("Its copies are found and can be removed, each plan after approval."),
    ),
    (
        "protected",
        gettext_lazy("Protected"),
        gettext_lazy("Nothing in it is ever acted on. Copies elsewhere can go because this one stays."),
    ),
    (
        "backup",
        gettext_lazy("Backup"),
        gettext_lazy("Its copies are meant to be copies: they never count as reclaimable."),
    ),
)
SCHEDULES = (
    ("none", gettext_lazy("No schedule")),
    ("interval", gettext_lazy("Every so many minutes")),
    ("cron", gettext_lazy("At the times of a cron expression")),
)
SCHEDULE_FIELDS = {"interval": "scan_interval_minutes", "cron": "scan_cron"}


class SizeField(forms.CharField):
    """Bytes as people write them: `64 kB`, `1.5 GB`, `512 KiB`; empty is 0."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return 0
        found = _SIZE.fullmatch(text)
        if found is None:
            raise forms.ValidationError(_("Write a number with a unit, like 64 kB, 1.5 GB or 512 KiB."))
        number, unit, binary = found.groups()
        size = Decimal(number.replace(",", ".")) * (1024 if binary else 1000) ** _POWERS[unit.lower()]
        if size > LARGEST:
            raise forms.ValidationError(_("This is more than any disk holds. Write a smaller number."))
        return int(size)

    def prepare_value(self, value: Any) -> Any:
        return written_size(value) if isinstance(value, int) else value


def written_size(size: int) -> str:
    """The shortest way to write exactly so many bytes."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (2**30, "GiB"), (2**20, "MiB")):
        if size and size % unit == 0:
            return f"{size // unit} {name}"
    return str(size)


class ScheduleForm(forms.Form):
    """When a library is scanned by itself; also asked alone, to show when that would be."""

    schedule = forms.ChoiceField(
        label=gettext_lazy("Scan by itself"), choices=SCHEDULES, initial="none", widget=forms.RadioSelect
    )
    scan_interval_minutes = forms.IntegerField(
        label=gettext_lazy("Minutes between scans"), required=False, min_value=1, max_value=MOST_MINUTES
    )
    scan_cron = forms.CharField(
        label=gettext_lazy("Cron expression"),
        required=False,
        max_length=255,
        help_text=gettext_lazy("Minute, hour, day, month, weekday: “30 2 * * 0” is every Sunday at 02:30."),
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        field = SCHEDULE_FIELDS.get(cleaned.get("schedule", ""))
        if field is not None and field not in self.errors:
            self._check(field, cleaned)
        return cleaned

    def _check(self, field: str, cleaned: dict[str, Any]) -> None:
        if not cleaned.get(field):
            self.add_error(field, _("Fill this in, or choose another schedule."))
            return
        try:
            scheduling.check(*self.times())
        except Refused as refusal:
            self.add_error(field, str(refusal))

    def times(self) -> tuple[int, str]:
        """The interval in minutes and the cron expression, of which at most one is set."""
        chosen = self.cleaned_data.get("schedule")
        minutes = self.cleaned_data.get("scan_interval_minutes") if chosen == "interval" else None
        cron = self.cleaned_data.get("scan_cron") if chosen == "cron" else None
        return minutes or 0, cron or ""


class LibraryForm(ScheduleForm):
    """A library's settings. `library` is the one they are of; without it, it is a new one, of the folder at `picked` or
    of one whose path is typed."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=255,
        help_text=gettext_lazy("How it is called on every page. It can be changed at any time."),
    )
    path = forms.CharField(label=gettext_lazy("Folder"), max_length=2048)
    #: The folder as it was picked (`libraries.picking`); then no path is typed.
    folder = forms.CharField(required=False, widget=forms.HiddenInput)
    role = forms.ChoiceField(
        label=gettext_lazy("Role"),
        choices=[(value, label) for value, label, _why in ROLES],
        initial="normal",
        widget=forms.RadioSelect,
    )
    exclude_patterns = forms.CharField(
        label=gettext_lazy("Leave out"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false"}),
        initial="\n".join(DEFAULT_PATTERNS),
        help_text=gettext_lazy(
            "One pattern a line, with * ? and […]. Without a slash it means a name anywhere, "
            "with one a path below the folder. What lies in a folder that is left out is left out too."
        ),
    )
    min_size_bytes = SizeField(
        label=gettext_lazy("Smallest file"),
        required=False,
        initial=0,
        help_text=gettext_lazy("Smaller files are left out: 64 kB, 1 MB. 0 takes every file."),
    )
    hash_everything = forms.BooleanField(
        label=gettext_lazy("Hash everything"),
        required=False,
        help_text=gettext_lazy(
            "Read also files that can have no twin. It takes longer, and every file then has a digest."
        ),
    )
    takes_young = forms.BooleanField(
        label=gettext_lazy("Take young files too"),
        required=False,
        help_text=gettext_lazy(
            "Plans may take files however lately they changed. Only for places into which nobody uploads or syncs."
        ),
    )
    read_bytes_per_second = SizeField(
        label=gettext_lazy("Read at most, per second"),
        required=False,
        initial=0,
        help_text=gettext_lazy("50 MB leaves a disk free for others. 0 is no limit."),
    )
    protected_folders = forms.CharField(
        label=gettext_lazy("Protected folders"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=gettext_lazy("One a line, as paths below the folder. Nothing in them is ever acted on."),
    )

    def __init__(
        self, data: QueryDict | None, *, library: LibraryRoot | None = None, picked: bytes | None = None
    ) -> None:
        super().__init__(data, initial=_of_picked(picked) if library is None else _initial(library))
        self.library = library
        self.picked = _picked(data) if data is not None else picked
        for field in ("path", "scan_cron", "exclude_patterns", "protected_folders"):
            self.fields[field].widget.attrs |= {"class": "mono", "autocapitalize": "none", "autocomplete": "off"}
        if library is not None:
            del self.fields["path"], self.fields["folder"]
        else:
            self.fields["path"].help_text = _below_roots()
            self.fields["path"].required = self.picked is None

    @property
    def picked_path(self) -> str:
        return "" if self.picked is None else to_display(to_text(self.picked))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.picked is not None and self.library is None:
            cleaned["path"] = self.picked
        return cleaned

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        others = LibraryRoot.objects.filter(name=name)
        if self.library is not None:
            others = others.exclude(pk=self.library.pk)
        if others.exists():
            raise forms.ValidationError(_("There is a library of this name. Choose another name."))
        return name

    def values(self) -> dict[str, Any]:
        """What was chosen, by the names of the columns."""
        chosen = self.cleaned_data
        minutes, cron = self.times()
        return {
            "role": chosen["role"],
            "exclude_patterns": _lines(chosen["exclude_patterns"]),
            "min_size_bytes": chosen["min_size_bytes"],
            "hash_everything": chosen["hash_everything"],
            "takes_young": chosen["takes_young"],
            "read_bytes_per_second": chosen["read_bytes_per_second"],
            "scan_interval_minutes": minutes,
            "scan_cron": cron,
            "protected_folders": _lines(chosen["protected_folders"]),
        }


def _picked(data: QueryDict) -> bytes | None:
    """The folder that was picked. What names none is as good as nothing: then a path is asked for."""
    try:
        return picking.parse(data.get("folder") or "")
    except picking.NoSuchFolder:
        return None


def _of_picked(path: bytes | None) -> dict[str, Any] | None:
    return None if path is None else {"folder": path.hex(), "name": picking.suggest_name(path)}


def _initial(library: LibraryRoot) -> dict[str, Any]:
    schedule = "cron" if library.scan_cron else "interval" if library.scan_interval_minutes > 0 else "none"
    return {
        "name": library.name,
        "role": library.role,
        "exclude_patterns": library.exclude_patterns,
        "min_size_bytes": library.min_size_bytes,
        "hash_everything": library.hash_everything,
        "takes_young": library.takes_young,
        "read_bytes_per_second": library.read_bytes_per_second,
        "schedule": schedule,
        "scan_interval_minutes": library.scan_interval_minutes or None,
        "scan_cron": library.scan_cron,
        "protected_folders": library.protected_folders,
    }


def _lines(text: str) -> str:
    """As it is stored: browsers end lines with two characters."""
    return "\n".join(line for line in (each.strip() for each in text.splitlines()) if line)


def _below_roots() -> str:
    roots = ", ".join(to_display(str(root)) for root in settings.LIBRARIES_ROOTS)
    return _("An absolute path on the server, below %(roots)s (DEDUPFS_LIBRARIES_ROOT).") % {"roots": roots}
