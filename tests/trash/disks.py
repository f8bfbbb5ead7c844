"""Real filesystems for tests: a small image, mounted, that can be filled, made read-only, and unmounted.

    with loop_disk(tmp_path / "disk") as disk:
        ...

What a folder of the machine's own disk can't show is shown on these: another filesystem inside a library, a full disk,
extended attributes, a place that is read-only for root as well.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

_libc = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
MIB = 1 << 20
#: xfs and btrfs refuse to be smaller.
LEAST_MIB = {"ext4": 8, "xfs": 300, "btrfs": 110}
MAKERS = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}


@dataclass(frozen=True)
class Disk:
    """A mounted image."""

    point: Path
    image: Path

    @property
    def free_bytes(self) -> int:
        figures = os.statvfs(self.point)
        return figures.f_bavail * figures.f_frsize

    def fill(self, name: str = "filler", *, leave_bytes: int = 0) -> Path:
        """Write until there is no space left (`ENOSPC`), then give so much back."""
        filler = self.point / name
        with filler.open("wb", buffering=0) as file:
            for portion in (MIB, 4096, 512, 1):
                with suppress(OSError):
                    while file.write(b"\xff" * portion):
                        pass
            os.fsync(file.fileno())
        if leave_bytes:
            os.truncate(filler, max(filler.stat().st_size - leave_bytes, 0))
        return filler

    def use_up_inodes(self, folder: str = "names") -> None:
        """No new file or folder can be made, though there may be space."""
        below = self.point / folder
        below.mkdir()
        for number in count():
            try:
                (below / str(number)).touch()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return

    def make_read_only(self) -> None:
        _run("mount", "-o", "remount,ro", str(self.point))

    def make_writable(self) -> None:
        _run("mount", "-o", "remount,rw", str(self.point))

    def unmount(self) -> None:
        _run("umount", str(self.point))

    def mount(self, point: Path | None = None) -> Disk:
        """Mount it again, here or elsewhere; whoever mounts it elsewhere unmounts it there."""
        where = point or self.point
        where.mkdir(parents=True, exist_ok=True)
        _run("mount", "-o", "loop", str(self.image), str(where))
        return Disk(where, self.image)


@contextmanager
def loop_disk(point: Path, *, mebibytes: int = 0, kind: str = "ext4", image: Path | None = None) -> Iterator[Disk]:
    """A new filesystem mounted at `point`. Skipped, saying why, only where this machine can't."""
    if shutil.which(MAKERS[kind][0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        pytest.skip(f"{MAKERS[kind][0]} is not installed")
    image = image or point.with_name(f"{point.name}.img")
    point.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(max(mebibytes, LEAST_MIB[kind]) * MIB)
    _run(*MAKERS[kind], str(image))
    done = subprocess.run(["mount", "-o", "loop", str(image), str(point)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this user or machine can't mount a disk image: {done.stderr.strip()}")
    disk = Disk(point, image)
    try:
        with suppress(OSError):
            (point / "lost+found").rmdir()
        yield disk
    finally:
        while _is_mounted(point):
            _libc.umount2(os.fsencode(point), MNT_DETACH)


def _is_mounted(point: Path) -> bool:
    return os.path.ismount(point)


def _run(*command: str) -> None:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
