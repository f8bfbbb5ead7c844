"""Groups that somebody said are no duplicate problem: remembered by their content, whatever happens to the files."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connections, transaction
from django.utils.translation import gettext as _

from database.portions import portions
from database.routing import EXECUTOR, POLICY
from duplicates.cursors import parse_group_key
from duplicates.facts import Digest
from duplicates.models import IgnoredGroup, group_key
from jobs.errors import Refused
from logbook.models import write_event

#: What a group's history is about in the logbook; its key is the group key.
ITEM = "duplicate_groups"
NOTE_CHARACTERS = 255
_MOST = 400
#: What each ignored content is by the digests that are about to be put in place.
_CARRIED = """
SELECT DISTINCT i.id, r.content_hash
  FROM ignored_groups i
  {join} library_files f ON f.hash_algorithm = i.hash_algorithm AND f.content_hash = i.content_hash
         AND f.content_hash IS NOT NULL AND NOT f.needs_hash
  {join} rehashes r ON r.file_id = f.id AND r.size_bytes = f.size_bytes AND r.mtime_ns = f.mtime_ns
 ORDER BY i.id, r.content_hash"""


def ignore(key: str, *, actor: str, note: str = "") -> IgnoredGroup:
    """Say that a content is no problem. Saying it twice is saying it once; a new note takes the old one's place.

    Raises `BadGroupKey`, and `Refused` for a note that can't be kept.
    """
    algorithm, digest = parse_group_key(key)
    note = checked_note(note)
    with transaction.atomic():
        ignored, is_new = IgnoredGroup.objects.get_or_create(
            hash_algorithm=algorithm, content_hash=digest, defaults={"note": note, "ignored_by": actor}
        )
        if is_new or (note and note != ignored.note):
            IgnoredGroup.objects.filter(pk=ignored.pk).update(note=note)
            _write("ignored", (algorithm, digest), actor, note)
        ignored.refresh_from_db()
    return ignored


def stop_ignoring(key: str, *, actor: str) -> bool:
    """Undo it; whether there was anything to undo. Raises `BadGroupKey`."""
    algorithm, digest = parse_group_key(key)
    with transaction.atomic():
        count, _tables = IgnoredGroup.objects.filter(hash_algorithm=algorithm, content_hash=digest).delete()
        if count:
            _write("no longer ignored", (algorithm, digest), actor)
    return bool(count)


def ignored_among(digests: Iterable[Digest], using: str = POLICY) -> set[Digest]:
    """Which of these contents are ignored."""
    found: set[Digest] = set()
    for some in portions(list(digests), _MOST):
        marks = ", ".join(["(%s, %s)"] * len(some))
        sql = (
            "SELECT hash_algorithm, content_hash FROM ignored_groups"
            f" WHERE (hash_algorithm, content_hash) IN (VALUES {marks})"
        )
        with connections[using].cursor() as cursor:
            cursor.execute(sql, [part for digest in some for part in digest])
            found |= {(algorithm, bytes(digest)) for algorithm, digest in cursor.fetchall()}
    return found


def carry_over(algorithm: str, using: str = EXECUTOR) -> int:
    """Follow a change of the system's hash algorithm; how many contents were carried over.

    Called in the transaction that puts the new digests in place, while the old ones still stand in `library_files` and
    the new ones in `rehashes`. A content of which no file is there keeps its old digest, in case that comes back.
    """
    join = "CROSS JOIN" if connections[using].vendor == "sqlite" else "JOIN"
    with connections[using].cursor() as cursor:
        cursor.execute(_CARRIED.format(join=join))
        # Files of one old digest have one new one, unless somebody found a collision: then the first is as good.
        targets = {key: bytes(digest) for key, digest in reversed(cursor.fetchall())}
    ignored = IgnoredGroup.objects.using(using).exclude(hash_algorithm=algorithm).order_by("pk")
    carried = [old for old in ignored if old.pk in targets]
    for old in carried:
        _carry(old, (algorithm, targets[old.pk]), using)
    return len(carried)


def _carry(old: IgnoredGroup, to: Digest, using: str) -> None:
    rows = IgnoredGroup.objects.using(using)
    algorithm, digest = to
    if rows.filter(hash_algorithm=algorithm, content_hash=digest).exists():
        rows.filter(pk=old.pk).delete()
        return
    rows.filter(pk=old.pk).update(hash_algorithm=algorithm, content_hash=digest)
    was = group_key(old.hash_algorithm, bytes(old.content_hash))
    _write("ignored", to, old.ignored_by, old.note, using, known_before_as=was)


def _write(event: str, digest: Digest, actor: str, note: str = "", using: str = POLICY, **more: str) -> None:
    key = group_key(*digest)
    payload = {**({"note": note} if note else {}), **more}
    write_event(ITEM, key, event, actor=actor, using=using, title=key, **payload)


def checked_note(note: str) -> str:
    """As it is kept. Raises `Refused` for one that can't be."""
    text = note.strip()
    if len(text) > NOTE_CHARACTERS:
        words = _("A note may have %(most)d characters; this has %(count)d.")
        raise Refused(words % {"most": NOTE_CHARACTERS, "count": len(text)})
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Refused(_("The note holds a character that can't be stored."))
    return text
