"""Which groups are meant: the filter that stands in an address, and what it is in SQL.

Most of it is answered by the group's own row. What depends on the files (folder, extension, media type) is asked of
them through the index of digests, and costs more: `duplicates.listing` sees to it that no page waits for it long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _

LARGEST = 2**63 - 1
PATH_CHARACTERS = 4096
EXTENSION_CHARACTERS = 64
IGNORED = ("no", "only", "all")
#: What kind of file a content is, its first copies tell: one that lies in every folder need not be looked at whole.
MOST_NAMES = 100
#: Letters are compared without their case where they are ASCII; the extension is what follows the last dot.
MEDIA: dict[str, tuple[str, ...]] = {
    "image": (
        "arw", "avif", "bmp", "cr2", "cr3", "dng", "gif", "heic", "heif", "ico", "jfif", "jpe", "jpeg", "jpg", "jxl",
        "nef", "orf", "pef", "png", "psd", "raf", "raw", "rw2", "svg", "tif", "tiff", "webp", "xcf",
    ),
    "video": (
        "3gp", "asf", "avi", "flv", "m2ts", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "mts", "ogv", "ts", "vob",
        "webm", "wmv",
    ),
    "audio": (
        "aac", "aif", "aiff", "ape", "flac", "m4a", "m4b", "mid", "mka", "mp3", "oga", "ogg", "opus", "wav", "wma",
    ),
    "document": (
        "csv", "doc", "docx", "epub", "htm", "html", "md", "mobi", "odp", "ods", "odt", "pages", "pdf", "ppt", "pptx",
        "rtf", "tex", "txt", "xls", "xlsx",
    ),
    "archive": (
        "7z", "bz2", "deb", "dmg", "gz", "img", "iso", "jar", "rar", "rpm", "tar", "tbz", "tgz", "xz", "zip", "zst",
    ),
}  # fmt: skip

#: A text with what is put into its placeholders.
Sql = tuple[str, list[Any]]


class BadFilter(ValueError):
    """A filter that can't be used; its text is for a person."""


@dataclass(frozen=True)
class Filter:
    """Which groups: all that is said has to hold, each by any of the group's files."""

    #: A file of the group is in this library,
    library: int | None = None
    #: and below this folder of it: a path from the library's root, as it is stored.
    folder: str = ""
    extension: str = ""
    #: A key of `MEDIA`.
    media: str = ""
    #: Of one copy. Empty files are all equal and no loss, so they are left out unless 0 is asked for.
    least_bytes: int = 1
    #: There are copies in more than one library.
    spans: bool = False
    copy_in: int | None = None
    #: The groups that somebody said are no problem: left out, only those, or as any other.
    ignored: str = "no"

    @classmethod
    def parse(cls, params: Mapping[str, str]) -> Filter:
        """What an address says. What it does not say, or leaves empty, is as by default; other words are not ours."""
        given = {field.name: params.get(field.name) or "" for field in fields(cls)}
        for text in given.values():
            _check_text(text)
        found = cls(
            library=_number(given["library"], _("library")),
            folder=_folder(given["folder"]),
            extension=_extension(given["extension"]),
            media=_choice(given["media"], ("", *MEDIA), _("media type")),
            least_bytes=_bytes(given["least_bytes"]),
            spans=_is_on(given["spans"]),
            copy_in=_number(given["copy_in"], _("“copy in”")),
            ignored=_choice(given["ignored"] or "no", IGNORED, _("“ignored”")),
        )
        if found.folder and found.library is None:
            raise BadFilter(_("A folder is looked for in one library. Choose the library as well."))
        return found

    def query(self) -> str:
        """The same as a query string, without what is as by default."""
        default = Filter()
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return urlencode(
            {
                name: "1" if value is True else value
                for name, value in said.items()
                if value != getattr(default, name) and value is not None
            }
        )

    @property
    def needs_files(self) -> bool:
        """Whether a group's own row is not enough to answer it."""
        return bool(self.folder or self.extension or self.media)

    # --- In SQL -------------------------------------------------------------------------------------------
    def of_group(self) -> Sql:
        """The part that a row `g` of `duplicate_groups` answers."""
        parts: list[str] = []
        values: list[Any] = []
        if self.least_bytes > 0:
            parts.append("g.size_bytes >= %s")
            values.append(self.least_bytes)
        if self.spans:
            parts.append("g.spans_libraries")
        for library in {self.library, self.copy_in} - {None}:
            parts.append("g.library_ids LIKE %s")
            values.append(f"%,{library},%")
        if self.ignored != "all":
            is_ignored = (
                "EXISTS (SELECT 1 FROM ignored_groups i"
                " WHERE i.hash_algorithm = g.hash_algorithm AND i.content_hash = g.content_hash)"
            )
            parts.append(is_ignored if self.ignored == "only" else f"NOT {is_ignored}")
        return " AND ".join(parts), values

    def of_files(self, vendor: str) -> Sql:
        """The part that the files of `g` answer, found by their digest."""
        parts: list[str] = []
        values: list[Any] = []
        if self.folder:
            # The sign keeps SQLite from going through the whole library instead of the group's few files.
            parts.append(_any_file("+f.library_id = %s AND SUBSTR(f.relative_path, 1, %s) = %s"))
            values += [self.library, len(self.folder) + 1, f"{self.folder}/"]
        if self.extension:
            sql, endings = _ends_with((self.extension,), vendor)
            parts.append(_any_file(sql))
            values += endings
        if self.media:
            sql, endings = _ends_with(MEDIA[self.media], vendor)
            parts.append(_any_file(sql, MOST_NAMES))
            values += endings
        return " AND ".join(parts), values

    def conditions(self, vendor: str) -> Sql:
        """All of it; "" where everything is meant."""
        own, own_values = self.of_group()
        files, file_values = self.of_files(vendor)
        return " AND ".join(filter(None, [own, files])), [*own_values, *file_values]


def _any_file(condition: str, most: int | None = None) -> str:
    """Of all files of a group, or of the first so many. The offset says nothing, but keeps PostgreSQL from reading the
    whole index instead of each group's few files."""
    files = (
        "library_files f WHERE f.hash_algorithm = g.hash_algorithm AND f.content_hash = g.content_hash"
        " AND f.content_hash IS NOT NULL AND NOT f.is_missing AND NOT f.needs_hash"
    )
    if most is not None:
        files = f"(SELECT f.relative_path FROM {files} ORDER BY f.id LIMIT {most}) f WHERE true"
    return f"EXISTS (SELECT 1 FROM {files} AND {condition} LIMIT 1 OFFSET 0)"


def _ends_with(extensions: tuple[str, ...], vendor: str) -> Sql:
    """Whether the path ends with one of these, by one comparison for each length that they have."""
    end = (
        "LOWER(SUBSTR(f.relative_path, -{}))" if vendor == "sqlite" else 'LOWER(RIGHT(f.relative_path, {}) COLLATE "C")'
    )
    by_length: dict[int, list[str]] = {}
    for extension in extensions:
        by_length.setdefault(len(extension) + 1, []).append(f".{extension}")
    parts = [f"{end.format(length)} IN ({', '.join(['%s'] * len(some))})" for length, some in by_length.items()]
    return f"({' OR '.join(parts)})", [each for some in by_length.values() for each in some]


# --- From an address --------------------------------------------------------------------------------------
def _check_text(text: str) -> None:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise BadFilter(_("The filter holds a character that no name can have."))


def _number(text: str, what: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > LARGEST:
        raise BadFilter(_("%(what)s is a number, not “%(text)s”.") % {"what": what.capitalize(), "text": text[:80]})
    return int(text)


def _bytes(text: str) -> int:
    number = _number(text, _("least size"))
    return 1 if number is None else number


def _folder(text: str) -> str:
    """A path below the library. Spaces belong to names; slashes at the ends do not."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadFilter(_("Write the folder without “..”."))
    folder = "/".join(parts)
    if len(folder) > PATH_CHARACTERS:
        raise BadFilter(_("No folder has a path as long as this one."))
    return folder


def _extension(text: str) -> str:
    extension = text.strip().removeprefix(".")
    if len(extension) > EXTENSION_CHARACTERS or "/" in extension or "." in extension:
        raise BadFilter(_("“%(text)s” is not the extension of a file's name.") % {"text": text[:80]})
    return _lower(extension)


def _lower(text: str) -> str:
    """As both databases do it: ASCII letters only, since nobody agrees on the others."""
    return "".join(each.lower() if each.isascii() else each for each in text)


def _choice(text: str, choices: tuple[str, ...], what: str) -> str:
    if text not in choices:
        listed = ", ".join(filter(None, choices))
        words = {"what": what.capitalize(), "choices": listed, "text": text[:80]}
        raise BadFilter(_("%(what)s is one of %(choices)s, not “%(text)s”.") % words)
    return text


def _is_on(text: str) -> bool:
    """As a checkbox of a form sends it, or as people write it."""
    word = text.strip().lower()
    if word not in ("", "0", "no", "off", "false", "1", "yes", "on", "true"):
        raise BadFilter(_("“Spans libraries” is 1 or 0, not “%(text)s”.") % {"text": text[:80]})
    return word in ("1", "yes", "on", "true")
