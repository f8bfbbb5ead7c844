"""What an act writes into the manifests of its trashes, before it touches a file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from duplicates.models import Action, group_key
from libraries.names import to_bytes
from trash import manifest
from trash.errors import ActFailed
from trash.folders import Trash
from trash.planned import Intent
from trash.refusing import refused


def lines_of(intents: Iterable[Intent], root: bytes, trash_folder: str) -> list[str]:
    """What the manifest says of files that go into one trash; their paths there start at the folder that holds it."""
    root += b"/"
    above, above_text = (len(to_bytes(trash_folder)) + 1, len(trash_folder) + 1) if trash_folder else (0, 0)
    lines = []
    for item, path, _, info, _, _ in intents:
        assert info is not None
        lines.append(
            manifest.item_line(
                item.id,
                path[above:],
                item.path[above_text:],
                info,
                digest=group_key(item.algorithm, item.digest),
                action=item.action or Action.TRASH,
                keeper=item.keeper.path,
                attributes=_attributes(root + path),
            )
        )
    return lines


def _attributes(path: bytes) -> dict[str, str]:
    """Extended attributes, as the manifest has them. Only a note, the inode keeps its own: so they are asked for by the
    path, whatever lies there by now. By way of a descriptor that takes more than twice as long."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
        if not names:
            return {}
        values = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
    except OSError:
        return {}
    return {os.fsencode(name).hex(): value.hex() for name, value in values.items()}


def write(trash: Trash, lines: list[str]) -> None:
    """Without a manifest nothing is done: then the whole act ends, whatever the reason."""
    try:
        trash.write_manifest(lines)
    except OSError as error:
        reason = refused(error, gone="NO_TRASH", what="The manifest of the trash")
        raise ActFailed(
            reason.code, f"The manifest of the trash can't be written, so nothing more is done: {reason.message}"
        ) from None
