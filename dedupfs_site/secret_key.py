"""The key that signs sessions: made once, kept in the state folder, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from dedupfs_site.environment import SettingError


def choose(given: str, state_root: Path) -> str:
    """The key a person set, or the stored one; either way the state folder must be usable."""
    if not given:
        return load_or_make(state_root)
    try:
        state_root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(_unusable(state_root, error.strerror or str(error))) from None
    _check_writable(state_root)
    return given


def load_or_make(state_root: Path) -> str:
    """Return the stored key; on the very first start make it.

    Several processes may start at once: each writes a file of its own and links it into place, so all of
    them read the one that was linked first, and none reads half a key.
    """
    path = state_root / "secret_key"
    try:
        if not path.exists():
            _make(path)
        key = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise SettingError(_unusable(state_root, error.strerror or str(error))) from None
    _check_writable(state_root)
    if len(key) < 50:
        raise SettingError(f"{path} is too short to be a key: remove it and start again (logins are lost)")
    return key


def _check_writable(state_root: Path) -> None:
    if not os.access(state_root, os.W_OK | os.X_OK):
        raise SettingError(_unusable(state_root, "it can't be written to"))


def _unusable(state_root: Path, reason: str) -> str:
    return (
        f"DEDUPFS_STATE_ROOT={state_root} can't be used as the state folder ({reason}): "
        "make it writable for this user, or name another one"
    )


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"secret_key.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(64) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first; its key is the key
    finally:
        draft.unlink()
