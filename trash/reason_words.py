"""Why nothing was done to a file, in the words of a page: one line for each code (`trash_items.reason_code`)."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

REASONS = {
    "VICTIM_GONE": gettext_lazy("It was not there any more"),
    "VICTIM_CHANGED": gettext_lazy("It changed since the plan was made"),
    "KEEPER_GONE": gettext_lazy("The copy that stays was not there any more"),
    "KEEPER_CHANGED": gettext_lazy("The copy that stays changed since the plan was made"),
    "NOT_A_FILE": gettext_lazy("It, or a folder on the way to it, is a link or something else by now"),
    "CONTENT_DIFFERS": gettext_lazy("The two were not the same, byte for byte"),
    "DIGEST_DIFFERS": gettext_lazy("Its content was not the one on record"),
    "SAME_FILE": gettext_lazy("It is the very file that stays, by another name"),
    "PROTECTED": gettext_lazy("It lies in a protected place"),
    "BACKUP": gettext_lazy("It lies in a backup library"),
    "TOO_YOUNG": gettext_lazy("It was changed a short time ago and may still be written"),
    "OTHER_FILESYSTEM": gettext_lazy("It lies on another filesystem"),
    "KEEPER_GOES": gettext_lazy("The copy that stays goes by another plan"),
    "KEEPER_IN_TRASH": gettext_lazy("The copy that stays lies in a trash"),
    "LIBRARY_GONE": gettext_lazy("Its library was not there"),
    "LIBRARIES_OVERLAP": gettext_lazy("Its library and the other copy's lie inside one another"),
    "METADATA_DIFFERS": gettext_lazy("Owner, mode or extended attributes differ"),
    "READ_ONLY": gettext_lazy("Its folder can't be written to"),
    "DISK_FULL": gettext_lazy("The disk was full"),
    "NO_TRASH": gettext_lazy("There is no trash on its filesystem, and none can be made"),
    "UNREADABLE": gettext_lazy("It could not be read"),
    "PLACE_TAKEN": gettext_lazy("Something else has its old place"),
    "FOLDER_GONE": gettext_lazy("The folder it came from is gone"),
    "TRASH_GONE": gettext_lazy("It was not in the trash any more"),
    "TRASH_CHANGED": gettext_lazy("It was changed inside the trash"),
    "LAST_COPY": gettext_lazy("It is the last copy of its content"),
    "STRAY": gettext_lazy("It is another version than the plan named, and stays"),
    "OUTSIDE": gettext_lazy("It does not stay inside its library"),
    "TOO_MANY_LINKS": gettext_lazy("The copy that stays has as many names as its filesystem allows"),
}


def reason_words(code: str) -> str:
    return str(REASONS.get(code, "")) or code.replace("_", " ").capitalize() or _("No reason was noted")
