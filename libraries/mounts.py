"""Which filesystem a folder lies on, and where: read from the kernel's list of mounts. Knows nothing of Django.

Device numbers change from mount to mount, so a filesystem is known by its UUID, or by its type and source where it
has none. The list is text in memory: reading it never waits for a disk that is dead. Only asking a filesystem for its
UUID, and `os.path.realpath` before, can wait; callers in a hurry do that in a process of its own (`libraries.asking`).
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from uuid import UUID

from libraries.names import to_text

_ESCAPE = re.compile(rb"\\([0-7]{3})")
#: Linux 6.9 and later tell a mounted filesystem's UUID to everybody, also inside a container without `/dev/disk`.
_FS_IOC_GETFSUUID = 0x80111500
#: The same question in the words of ext4 alone, from Linux 6.0.
_EXT4_IOC_GETFSUUID = 0x8008662C


@dataclass(frozen=True)
class Mount:
    """One line of the list. `root` is the folder of the filesystem that is mounted: not "/" for bind mounts."""

    id: int
    parent: int
    device: int
    root: bytes
    point: bytes
    fstype: str
    source: bytes

    @property
    def is_on_a_disk(self) -> bool:
        return self.source.startswith(b"/dev/")


@dataclass(frozen=True)
class Machine:
    """Where a machine tells about its mounts and disks; tests have machines of their own."""

    mountinfo: Path = Path("/proc/self/mountinfo")
    dev: Path = Path("/dev")
    sys: Path = Path("/sys")


HERE = Machine()


@dataclass(frozen=True)
class MountTable:
    """Every mount of a machine at one moment, as the kernel looks paths up in them."""

    mounts: tuple[Mount, ...]

    def at(self, path: bytes) -> Mount:
        """The mount that an absolute path without symlinks lies on: each step down may cross into another one, and
        the last mounted on a folder is on top."""
        current = self._top(self._root, b"/")
        for folder in _on_the_way(path):
            current = self._top(current, folder)
        return current

    def below(self, root: bytes) -> Iterator[Mount]:
        """Mounts that begin below `root` and can be reached: one that is hidden by a later one is not there."""
        prefix = root.rstrip(b"/") + b"/"
        for mount in self.mounts:
            if mount.point.startswith(prefix) and mount.point != prefix and self.at(mount.point) is mount:
                yield mount

    def of_device(self, device: int) -> Mount | None:
        return next((mount for mount in reversed(self.mounts) if mount.device == device), None)

    def _top(self, mount: Mount, point: bytes) -> Mount:
        while (above := self._children.get((mount.id, point))) is not None:
            mount = above
        return mount

    @cached_property
    def _children(self) -> dict[tuple[int, bytes], Mount]:
        return {(mount.parent, mount.point): mount for mount in self.mounts if mount.parent != mount.id}

    @cached_property
    def _root(self) -> Mount:
        known = {mount.id for mount in self.mounts}
        tops = [mount for mount in self.mounts if mount.point == b"/"]
        return next((top for top in tops if top.parent == top.id or top.parent not in known), tops[-1])


def read(machine: Machine = HERE) -> MountTable:
    return MountTable(tuple(map(_parse, machine.mountinfo.read_bytes().splitlines())))


def filesystem_name(where: bytes | int, machine: Machine = HERE) -> str:
    """What the filesystem of a path (or of a device number) is called, whatever number it has today."""
    table = read(machine)
    mount = table.of_device(where) if isinstance(where, int) else table.at(os.path.realpath(where))
    return "unknown" if mount is None else _name(mount, machine)


def mounts_below(root: bytes, machine: Machine = HERE) -> dict[bytes, str]:
    """Folder below `root` where a filesystem begins → its name; the root itself is `b""`."""
    table, root = read(machine), os.path.realpath(root)
    inner = {mount.point[len(root.rstrip(b"/")) + 1 :]: _name(mount, machine) for mount in table.below(root)}
    return {b"": _name(table.at(root), machine), **inner}


def filesystems(root: bytes) -> dict[str, str]:
    """The same as the columns hold it."""
    return {to_text(folder): name for folder, name in mounts_below(root).items()}


def mount_of(folder: str, filesystems: Mapping[str, str]) -> str:
    """The folder where the filesystem begins that a folder below the same root lies on; "" is the root."""
    while folder and folder not in filesystems:
        folder = folder.rpartition("/")[0]
    return folder


def is_writable(folder: bytes) -> bool:
    """Whether this process could act in the folder."""
    return os.access(folder, os.W_OK | os.X_OK)


def canonical(path: bytes, machine: Machine = HERE) -> tuple[int, bytes]:
    """Where a path really lies: the device and the path inside it. Equal for every way that leads there."""
    real = os.path.realpath(path)
    return _place(read(machine).at(real), real)


def places(root: bytes, machine: Machine = HERE) -> list[tuple[int, bytes]]:
    """Every place whose files are found below `root`: its own and that of each mount inside it."""
    table, real = read(machine), os.path.realpath(root)
    return [_place(table.at(real), real), *((mount.device, mount.root) for mount in table.below(real))]


def overlap(one: list[tuple[int, bytes]], other: list[tuple[int, bytes]]) -> bool:
    """Whether some file can be found below both of two roots, given their `places`."""
    return any(
        device == device_b and (is_at_or_below(path, path_b) or is_at_or_below(path_b, path))
        for device, path in one
        for device_b, path_b in other
    )


def is_at_or_below(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


# --- Reading the list -------------------------------------------------------------------------------------


def _parse(line: bytes) -> Mount:
    """`36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`: optional fields end at the dash."""
    before, _, after = line.partition(b" - ")
    number, parent, device, root, point = before.split(b" ")[:5]
    fstype, source = after.split(b" ")[:2]
    major, minor = map(int, device.split(b":"))
    return Mount(
        int(number),
        int(parent),
        os.makedev(major, minor),
        _unescape(root),
        _unescape(point),
        fstype.decode(),
        _unescape(source),
    )


def _unescape(field: bytes) -> bytes:
    """Blanks, tabs, line ends and backslashes are written as three octal digits."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 8) & 255]), field)


def _on_the_way(path: bytes) -> Iterator[bytes]:
    """`/a`, `/a/b`, … down to the path itself."""
    folder = b""
    for name in path.split(b"/"):
        if name:
            folder += b"/" + name
            yield folder


def _place(mount: Mount, path: bytes) -> tuple[int, bytes]:
    rest = path[len(mount.point.rstrip(b"/")) :].strip(b"/")
    return mount.device, (mount.root.rstrip(b"/") + b"/" + rest).rstrip(b"/") or b"/"


# --- Names ------------------------------------------------------------------------------------------------


def _name(mount: Mount, machine: Machine) -> str:
    uuid = _uuid(mount, machine) if mount.is_on_a_disk else None
    return f"uuid:{uuid}" if uuid else f"{mount.fstype}:{to_text(mount.source)}"


def _uuid(mount: Mount, machine: Machine) -> str | None:
    """By the link udev made, by the list of a btrfs's disks, or by asking the filesystem itself: all three agree."""
    return _linked_uuid(mount, machine) or _btrfs_uuid(mount, machine) or _told_uuid(mount)


def _linked_uuid(mount: Mount, machine: Machine) -> str | None:
    numbers = {mount.device, _number(_node(mount.source, machine), machine)}
    links = machine.dev / "disk" / "by-uuid"
    for link in sorted(links.iterdir()) if links.is_dir() else ():
        if _number(link, machine) in numbers:
            return link.name.lower()
    return None


def _btrfs_uuid(mount: Mount, machine: Machine) -> str | None:
    """A btrfs of several disks has one link, to any of them; here all of them stand."""
    if mount.fstype != "btrfs":
        return None
    name = _node(mount.source, machine).resolve().name
    found = (machine.sys / "fs" / "btrfs").glob(f"*/devices/{name}")
    return next((each.parts[-3].lower() for each in found), None)


def _told_uuid(mount: Mount) -> str | None:
    try:
        folder = os.open(mount.point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.major(os.fstat(folder).st_dev) and os.fstat(folder).st_dev != mount.device:
            return None
        return _ask_any(folder) or (_ask_ext4(folder) if mount.fstype == "ext4" else None)
    finally:
        os.close(folder)


def _ask_any(folder: int) -> str | None:
    answer = bytearray(17)
    try:
        fcntl.ioctl(folder, _FS_IOC_GETFSUUID, answer)
    except OSError:
        return None
    return _written(answer[1:]) if answer[0] == 16 else None


def _ask_ext4(folder: int) -> str | None:
    """The length goes in and comes out, then flags, then the bytes."""
    answer = bytearray(8 + 16)
    answer[0] = 16
    try:
        fcntl.ioctl(folder, _EXT4_IOC_GETFSUUID, answer)
    except OSError:
        return None
    return _written(answer[8:])


def _written(number: bytearray) -> str | None:
    """A filesystem that was made without a UUID has one of zeros, as all of its kind have."""
    return str(UUID(bytes=bytes(number))) if any(number) else None


def _node(source: bytes, machine: Machine) -> Path:
    """`/dev/sda1` on the machine that is looked at."""
    return machine.dev / os.fsdecode(source.removeprefix(b"/dev/"))


def _number(node: Path, machine: Machine) -> int | None:
    """A device node's number. Where there is no node, as in a container, the kernel's list of block devices has it."""
    try:
        number = node.stat().st_rdev
    except OSError:
        number = 0
    return number or _number_in_sys(node.resolve().name, machine)


def _number_in_sys(name: str, machine: Machine) -> int | None:
    try:
        major, minor = (machine.sys / "class" / "block" / name / "dev").read_text().strip().split(":")
    except (OSError, ValueError):
        return None
    return os.makedev(int(major), int(minor))


# --- Disks ------------------------------------------------------------------------------------------------


#: Disks of virtual machines and of networks: the kernel says of each that it spins, because nobody told it otherwise.
VIRTUAL = ("vd", "xvd", "nbd", "rbd")


def is_rotational(device: int, sys: Path = HERE.sys) -> bool:
    """Whether a spinning disk is below the device. Not known is no: then several readers do no harm."""
    disks = [disk for disk in _disks(device, Machine(sys=sys)) if not disk.name.startswith(VIRTUAL)]
    return any(_reads(disk / "queue" / "rotational") == "1" for disk in disks)


def has_disk(device: int, sys: Path = HERE.sys) -> bool:
    """Whether the number is that of a disk, or of something on disks."""
    return bool(_disks(device, Machine(sys=sys)))


def disk_of(device: int, sys: Path = HERE.sys) -> str:
    """A key that is equal for all filesystems on the same disk (or on the same set of disks)."""
    names = sorted({disk.name for disk in _disks(device, Machine(sys=sys))})
    return ",".join(names) or f"{os.major(device)}:{os.minor(device)}"


def block_device(path: bytes, machine: Machine = HERE) -> int:
    """The device number to ask the two above about. A btrfs shows numbers that belong to no disk, one for each
    subvolume; its mount knows the disk."""
    mount = read(machine).at(os.path.realpath(path))
    return (_number(_node(mount.source, machine), machine) if mount.is_on_a_disk else None) or mount.device


def _disks(device: int, machine: Machine) -> list[Path]:
    """The whole disks below a device: a partition's disk, and what a RAID or an encrypted volume is made of."""
    node = machine.sys / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"
    return list(_disks_below(node.resolve())) if node.exists() else []


def _disks_below(node: Path) -> Iterator[Path]:
    disk = node.parent if (node / "partition").exists() else node
    below = sorted((disk / "slaves").iterdir()) if (disk / "slaves").is_dir() else []
    if not below:
        yield disk
    for each in below:
        yield from _disks_below(each.resolve())


def _reads(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
