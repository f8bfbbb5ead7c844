"""Plans in words: what is done, which groups are meant, what there is to know before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from duplicates.facts import Place
from duplicates.listing import BadFilter, Filter
from duplicates.models import Action, Plan
from frame.templatetags.human import count_words, duration_words, size_words
from libraries.names import to_display

ACTION_WORDS = {
    "trash": gettext_lazy("Move to trash"),
    "hardlink": gettext_lazy("Replace by a hard link"),
    "delete": gettext_lazy("Delete for good"),
}
MEDIA_WORDS = {
    "image": gettext_lazy("pictures"),
    "video": gettext_lazy("films"),
    "audio": gettext_lazy("music and sound"),
    "document": gettext_lazy("documents"),
    "archive": gettext_lazy("archives"),
}
LEFT_OUT_WORDS = {
    "protected_library": gettext_lazy("because their library is protected"),
    "protected_folder": gettext_lazy("because their folder is protected"),
    "backup": gettext_lazy("because they lie in a backup library"),
    "young": gettext_lazy("because they were changed a short time ago and may still be written"),
    "never_touch": gettext_lazy("because a rule says never to touch their folder"),
    "remove_only_under": gettext_lazy("because a rule lets files go from other folders only"),
    "undecided": gettext_lazy("because no rule decides between them"),
    "changed": gettext_lazy("because they changed while the plan was made"),
}
MOUNT_WORDS = {
    "absent": gettext_lazy("its folder is not there"),
    "empty": gettext_lazy("its folder is empty"),
    "different": gettext_lazy("another disk is there, or one inside is missing"),
}
#: For forms.
ACTIONS = tuple((value, ACTION_WORDS[value]) for value in Action.values)


# --- What is done -----------------------------------------------------------------------------------------
def total_words(plan: Plan) -> str:
    """Once it was carried out, what it asked for: what came of that is told by the acts."""
    going = plan.remove_count
    if plan.status == Plan.Status.DONE:
        words = {
            "trash": ngettext("%(count)s file was to move to trash", "%(count)s files were to move to trash", going),
            "hardlink": ngettext(
                "%(count)s file was to become a hard link", "%(count)s files were to become hard links", going
            ),
            "delete": ngettext("%(count)s file was to be deleted", "%(count)s files were to be deleted", going),
        }
    else:
        words = {
            "trash": ngettext("%(count)s file would move to trash", "%(count)s files would move to trash", going),
            "hardlink": ngettext(
                "%(count)s file would become a hard link", "%(count)s files would become hard links", going
            ),
            "delete": ngettext("%(count)s file would be deleted", "%(count)s files would be deleted", going),
        }
    return words[plan.action] % {"count": count_words(going)}


# --- Which groups -----------------------------------------------------------------------------------------
def filter_words(query: str, libraries: dict[int, Place]) -> str:
    try:
        chosen = Filter.parse(dict(parse_qsl(query)))
    except BadFilter:
        return query
    parts = []
    if chosen.library is not None:
        parts.append(_("in %(library)s") % {"library": library_name(chosen.library, libraries)})
    if chosen.folder:
        parts.append(_("below %(folder)s") % {"folder": to_display(chosen.folder)})
    if chosen.copy_in is not None:
        parts.append(_("with a copy in %(library)s") % {"library": library_name(chosen.copy_in, libraries)})
    if chosen.media:
        parts.append(str(MEDIA_WORDS.get(chosen.media, chosen.media)))
    if chosen.extension:
        parts.append(f".{to_display(chosen.extension)}")
    if chosen.least_bytes > 1:
        parts.append(_("from %(size)s") % {"size": size_words(chosen.least_bytes)})
    if chosen.least_bytes == 0:
        parts.append(_("with empty files"))
    if chosen.spans:
        parts.append(_("in several libraries"))
    if chosen.ignored != "no":
        parts.append(_("only ignored ones") if chosen.ignored == "only" else _("with ignored ones"))
    return _("Groups %(which)s") % {"which": ", ".join(parts)} if parts else _("All groups")


def library_name(library: int, libraries: dict[int, Place]) -> str:
    return to_display(libraries[library].name) if library in libraries else f"#{library}"


# --- Warnings ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ShownWarning:
    code: str
    #: attention, danger or quiet.
    state: str
    title: str
    text: str
    examples: tuple[str, ...] = ()


def described(warning: Any) -> ShownWarning | None:
    """In plain words; None for a warning that this version does not know."""
    code = warning.get("code") if isinstance(warning, dict) else None
    words = _WORDS.get(str(code))
    if words is None:
        return None
    state, title, text = words(warning)
    examples = tuple(_example(each) for each in warning.get("examples", []) if isinstance(each, dict))
    return ShownWarning(str(code), state, title, text, examples)


def _example(each: dict[str, str]) -> str:
    path = to_display(each.get("path", "")) or _("(its root)")
    return f"{to_display(each['library'])}: {path}" if each.get("library") else path


Said = tuple[str, str, str]


def _count(warning: dict[str, Any]) -> int:
    return int(warning.get("count", 0))


def _about(warning: dict[str, Any]) -> dict[str, str]:
    return {"count": count_words(_count(warning)), "library": to_display(str(warning.get("library", "")))}


def _side_cars(warning: dict[str, Any]) -> Said:
    title = ngettext(
        "%(count)s side-car file is left behind", "%(count)s side-car files are left behind", _count(warning)
    )
    text = _("Edits, dates or the moving half of a Live Photo lie beside a file that goes, and stay where they are.")
    return "attention", title % _about(warning), text


def _not_writable(warning: dict[str, Any]) -> Said:
    text = ngettext(
        "%(count)s file of this plan lies there, and nothing can be done to it.",
        "%(count)s files of this plan lie there, and nothing can be done to them.",
        _count(warning),
    )
    return "danger", _("“%(library)s” can't be written to") % _about(warning), text % _about(warning)


def _folders_not_writable(warning: dict[str, Any]) -> Said:
    title = ngettext("%(count)s folder can't be written to", "%(count)s folders can't be written to", _count(warning))
    files, unknown = int(warning.get("files", 0)), int(warning.get("unknown", 0))
    text = ngettext(
        "%(files)s file of this plan lies there, and nothing can be done to it: the disk is read-only, or the folder "
        "belongs to somebody else.",
        "%(files)s files of this plan lie there, and nothing can be done to them: the disk is read-only, or the folder "
        "belongs to somebody else.",
        files,
    ) % {"files": count_words(files)}
    if unknown:
        text += " " + ngettext(
            "Of %(unknown)s other folder it is not known.", "Of %(unknown)s other folders it is not known.", unknown
        ) % {"unknown": count_words(unknown)}
    return "danger", title % _about(warning), text


def _folders_silent(warning: dict[str, Any]) -> Said:
    title = ngettext("%(count)s folder did not answer", "%(count)s folders did not answer", _count(warning))
    text = _("Whether files can be taken out is not known. See that the disk or share is there, and plan again.")
    return "danger", title % _about(warning), text


def _not_mounted(warning: dict[str, Any]) -> Said:
    why = MOUNT_WORDS.get(str(warning.get("mount")), warning.get("mount", ""))
    title = _("“%(library)s” is not as it should be: %(why)s") % {**_about(warning), "why": why}
    text = ngettext(
        "%(count)s file of this plan lies there.", "%(count)s files of this plan lie there.", _count(warning)
    )
    return "danger", title, text % _about(warning)


def _not_seen(warning: dict[str, Any]) -> Said:
    title = _("Nobody has looked at the disk of “%(library)s” yet") % _about(warning)
    return "attention", title, _("Whether it can be written to is not known. A consumer looks by itself.")


def _library_gone(warning: dict[str, Any]) -> Said:
    title = ngettext(
        "%(count)s file lies in a library that is gone",
        "%(count)s files lie in a library that is gone",
        _count(warning),
    )
    return "danger", title % _about(warning), _("Nothing can be done to it. Plan again.")


def _hardlink_filesystems(warning: dict[str, Any]) -> Said:
    title = ngettext(
        "%(count)s file can't become a hard link",
        "%(count)s files can't become hard links",
        _count(warning),
    )
    text = _("The copy that stays lies on another filesystem, and a hard link never leaves its own.")
    return "danger", title % _about(warning), text


def _hardlink_libraries(warning: dict[str, Any]) -> Said:
    title = ngettext(
        "%(count)s file would become a hard link of one in another library",
        "%(count)s files would become hard links of files in another library",
        _count(warning),
    )
    return "attention", title % _about(warning), _("Whoever changes the one then changes the other.")


def _keeper_elsewhere(warning: dict[str, Any]) -> Said:
    title = ngettext(
        "%(count)s file goes because a copy in another library stays",
        "%(count)s files go because a copy in another library stays",
        _count(warning),
    )
    return "attention", title % _about(warning), _("If that library is given up later, its copy is the last one.")


def _emptied(warning: dict[str, Any]) -> Said:
    title = ngettext("%(count)s folder would become empty", "%(count)s folders would become empty", _count(warning))
    text = _("Of the files right inside, as far as the index knows them, none stays.")
    return "attention", title % _about(warning), text


def _left_out(warning: dict[str, Any]) -> Said:
    why = LEFT_OUT_WORDS.get(str(warning.get("why")), _("for another reason"))
    title = ngettext("%(count)s copy stays", "%(count)s copies stay", _count(warning)) % _about(warning)
    return "quiet", f"{title} {why}", ""


def _reading(warning: dict[str, Any]) -> Said:
    rate, size = int(warning.get("bytes_per_second", 1)), int(warning.get("bytes", 0))
    words = {"time": duration_words(size / max(rate, 1)), "size": size_words(size), "rate": size_words(rate)}
    title = _("Carrying it out would read %(size)s again, for about %(time)s") % words
    text = (
        _("At %(rate)s a second, as the last hash job measured.")
        if warning.get("is_measured")
        else _("At %(rate)s a second, which is assumed: no hash job has measured this machine yet.")
    )
    return "quiet", title, text % words


def _older(_warning: dict[str, Any]) -> Said:
    return (
        "quiet",
        _("The plan was changed since these were worked out"),
        _("They are those of the plan as it was made."),
    )


_WORDS = {
    "side_cars": _side_cars,
    "not_writable": _not_writable,
    "folders_not_writable": _folders_not_writable,
    "folders_silent": _folders_silent,
    "not_mounted": _not_mounted,
    "not_seen": _not_seen,
    "library_gone": _library_gone,
    "hardlink_filesystems": _hardlink_filesystems,
    "hardlink_libraries": _hardlink_libraries,
    "keeper_elsewhere": _keeper_elsewhere,
    "emptied": _emptied,
    "left_out": _left_out,
    "reading": _reading,
    "older": _older,
}
