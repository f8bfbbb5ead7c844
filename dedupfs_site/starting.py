"""What must hold before anything is started. Each refusal is one line that says what to do."""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from database.state_lock import StateHeld, hold_state

MOUNTS = Path("/proc/self/mountinfo")

#: Where SQLite's locks or its shared memory can't be relied on: other machines may write the same file.
NETWORK_FILESYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "coda",
        "drvfs",
        "gfs2",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb2",
    }
    | {"smb3", "smbfs", "vboxsf", "beegfs", "fuse.ceph-fuse", "fuse.davfs", "fuse.glusterfs", "fuse.juicefs"}
    | {"fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs", "fuse.vmhgfs-fuse", "fuse.curlftpfs"}
)


class CannotStart(Exception):
    """Something outside DedupFS is in the way; the message is one line for the person who started it."""


def check_state_folder(folder: Path) -> None:
    """Files can be made in `folder`; it is made if it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"probe")
    except OSError as error:
        raise CannotStart(
            f"the state folder {folder} can't be written to ({error.strerror}): "
            "make it writable for this user, or name another one with DEDUPFS_STATE_ROOT"
        ) from None


def own_sqlite_files() -> list[Path]:
    """The SQLite databases that this installation keeps."""
    files = []
    if settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
        files.append(Path(settings.DATABASES["default"]["NAME"]))
    if not settings.HUEY_URL:
        files.append(Path(settings.HUEY["filename"]))
    return files


def check_filesystem(file: Path, mounts: str) -> None:
    """`file`, a SQLite database, is on a disk of this machine."""
    kind = filesystem_of(file, mounts)
    if kind in NETWORK_FILESYSTEMS:
        raise CannotStart(
            f"{file} would be a SQLite database on a network filesystem ({kind}), where it loses data: "
            "put DEDUPFS_STATE_ROOT on a local disk, or set DATABASE_URL (PostgreSQL) and HUEY_URL (Redis)"
        )


def read_mounts() -> str:
    return MOUNTS.read_text(encoding="utf-8", errors="surrogateescape") if MOUNTS.exists() else ""


def filesystem_of(path: Path, mounts: str) -> str:
    """The type of the filesystem that holds `path`, read from the text of /proc/self/mountinfo.

    Of two mounts on the same folder the later line covers the earlier one.
    """
    place = path.resolve()
    kind, depth = "", -1
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if not right or len(left.split(" ")) < 5:
            continue
        point = Path(_unescaped(left.split(" ")[4]))
        if place.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = right.split(" ")[0], len(point.parts)
    return kind


def _unescaped(word: str) -> str:
    """The kernel writes blanks and backslashes in names as octal numbers."""
    for code in (" ", "\t", "\n"):
        word = word.replace(f"\\{ord(code):03o}", code)
    return word.replace("\\134", "\\")


def check_port(bind: str, port: int) -> None:
    """The web server will be able to listen at `bind`:`port`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(bind.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise CannotStart(f"DEDUPFS_BIND={bind} is no address of this machine") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            raise CannotStart(_why_not_listening(error, bind, port)) from None


def _why_not_listening(error: OSError, bind: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {bind} is taken by another program: stop that one, or choose another with PORT=…"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"DEDUPFS_BIND={bind} is no address of this machine"
    return f"can't listen on port {port} of {bind} ({error.strerror}): choose another with PORT=…"


@contextmanager
def state_lock(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process; a second `up` on it is refused."""
    try:
        with hold_state(folder):
            yield
    except StateHeld as error:
        raise CannotStart(f"DedupFS already runs on the state folder {folder} (process {error.holder})") from None
