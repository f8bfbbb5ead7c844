"""The kernel's list of mounts, read from text as kernels write it and from the machine that runs the test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from libraries import mounts
from libraries.mounts import Machine
from tests.libraries.dead_disk import mounted

#: A NAS: a disk with a bind mount, a share over a folder of it, a volume mounted over another one, a btrfs of two.
NAS = rb"""22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 0:21 / /proc rw - proc proc rw
30 22 8:17 / /volume1 rw,noatime shared:7 master:1 - ext4 /dev/sdb1 rw
31 30 8:17 /photos /volume1/web/pictures rw shared:8 - ext4 /dev/sdb1 rw
32 30 0:40 / /volume1/share\040of\011anna\134 rw - nfs4 nas.local:/export/my\040files rw,addr=10.0.0.2
33 22 8:33 / /volume2 rw - xfs /dev/sdc1 rw
34 33 8:49 / /volume2/inner rw - ext4 /dev/sdd1 rw
35 22 0:50 /@data /volume3 rw - btrfs /dev/sdf rw,subvolid=256
36 33 8:65 / /volume2 rw - vfat /dev/sde1 rw
37 22 0:60 / /pool rw - fuse.mergerfs 1:2 rw
38 22 254:0 / /secret rw - ext4 /dev/mapper/vault rw
39 22 254:1 / /tmp rw - tmpfs tmpfs rw
"""


def nas(folder: Path, mountinfo: bytes = NAS) -> Machine:
    """A machine in files: no node of /dev is needed, as `/sys` knows each name's number."""
    folder.mkdir(exist_ok=True)
    machine = Machine(folder / "mountinfo", folder / "dev", folder / "sys")
    machine.mountinfo.write_bytes(mountinfo)
    (machine.dev / "disk" / "by-uuid").mkdir(parents=True)
    disk(machine, "sda", "8:0", rotational=False, partitions={"sda2": "8:2"})
    disk(machine, "sdb", "8:16", rotational=True, partitions={"sdb1": "8:17"})
    disk(machine, "sdc", "8:32", rotational=False, partitions={"sdc1": "8:33"})
    disk(machine, "sde", "8:64", rotational=False, partitions={"sde1": "8:65"})
    disk(machine, "sdf", "8:80", rotational=True)
    disk(machine, "dm-0", "254:0", rotational=False, made_of=["sdb1", "sda2"])
    disk(machine, "md0", "9:0", rotational=False, made_of=["dm-0"])
    for uuid, node in (("0a1B-2c3D", "sde1"), ("11111111-aaaa", "sdb1"), ("22222222-BBBB", "sdg"), ("33-v", "dm-0")):
        (machine.dev / node).touch()
        (machine.dev / "disk" / "by-uuid" / uuid).symlink_to(f"../../{node}")
    (machine.dev / "mapper").mkdir()
    (machine.dev / "mapper" / "vault").symlink_to("../dm-0")
    (machine.dev / "sdf").touch()
    for node in ("sdf", "sdg"):
        (machine.sys / "fs" / "btrfs" / "22222222-bbbb" / "devices" / node).mkdir(parents=True)
    return machine


def disk(
    machine: Machine,
    name: str,
    number: str,
    *,
    rotational: bool,
    partitions: dict[str, str] | None = None,
    made_of: list[str] | None = None,
) -> None:
    home = machine.sys / "devices" / name
    (home / "queue").mkdir(parents=True)
    (home / "queue" / "rotational").write_text(f"{int(rotational)}\n")
    (home / "slaves").mkdir()
    for below in made_of or ():
        (home / "slaves" / below).symlink_to((machine.sys / "class" / "block" / below).resolve())
    _node(machine, home, number)
    for part, its_number in (partitions or {}).items():
        (home / part).mkdir()
        (home / part / "partition").write_text("1\n")
        _node(machine, home / part, its_number)


def _node(machine: Machine, home: Path, number: str) -> None:
    (home / "dev").write_text(f"{number}\n")
    for folder, name in ((machine.sys / "class" / "block", home.name), (machine.sys / "dev" / "block", number)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(home)


def test_a_path_lies_on_the_mount_that_the_kernel_would_find(tmp_path: Path) -> None:
    table = mounts.read(nas(tmp_path))
    found = {path: table.at(path).id for path in (b"/", b"/etc", b"/volume1/x", b"/volume1/web/pictures/a", b"/pools")}
    assert found == {b"/": 22, b"/etc": 22, b"/volume1/x": 30, b"/volume1/web/pictures/a": 31, b"/pools": 22}
    assert table.at(b"/volume2/a").id == 36, "the last mounted is on top"
    assert table.at(b"/volume2/inner/a").id == 36, "what it hides is not there"
    assert [mount.id for mount in table.below(b"/volume2")] == []
    assert [mount.id for mount in table.below(b"/volume1/")] == [31, 32]


def test_names_with_blanks_tabs_and_backslashes_are_read_as_they_are(tmp_path: Path) -> None:
    below = mounts.mounts_below(b"/volume1", nas(tmp_path))
    assert below[b"share of\tanna\\"] == "nfs4:nas.local:/export/my files"
    assert set(below) == {b"", b"share of\tanna\\", b"web/pictures"}


def test_a_filesystem_is_known_by_its_uuid_where_it_has_one(tmp_path: Path) -> None:
    machine = nas(tmp_path)
    assert mounts.filesystem_name(b"/volume1", machine) == "uuid:11111111-aaaa"
    assert mounts.filesystem_name(b"/volume2", machine) == "uuid:0a1b-2c3d"
    assert mounts.filesystem_name(b"/secret", machine) == "uuid:33-v", "by the number behind the mapper's link"
    assert mounts.filesystem_name(b"/volume3", machine) == "uuid:22222222-bbbb", "by any of its disks"
    assert mounts.filesystem_name(os.makedev(8, 17), machine) == "uuid:11111111-aaaa"


def test_other_filesystems_are_known_by_type_and_source_never_by_number(tmp_path: Path) -> None:
    machine = nas(tmp_path)
    assert mounts.filesystem_name(b"/pool", machine) == "fuse.mergerfs:1:2"
    assert mounts.filesystem_name(b"/tmp", machine) == "tmpfs:tmpfs"
    assert mounts.filesystem_name(os.makedev(99, 99), machine) == "unknown"


def test_a_name_survives_a_new_device_number(tmp_path: Path) -> None:
    before = mounts.mounts_below(b"/volume3", nas(tmp_path / "a"))
    after = mounts.mounts_below(b"/volume3", nas(tmp_path / "b", NAS.replace(b"0:50", b"0:77")))
    assert before == after == {b"": "uuid:22222222-bbbb"}


def test_bind_mounts_lead_to_the_same_place(tmp_path: Path) -> None:
    machine = nas(tmp_path)
    place = mounts.canonical(b"/volume1/photos/2024", machine)
    assert place == mounts.canonical(b"/volume1/web/pictures/2024", machine) == (os.makedev(8, 17), b"/photos/2024")
    assert mounts.canonical(b"/volume3", machine) == (os.makedev(0, 50), b"/@data")
    assert mounts.canonical(b"/", machine) == (os.makedev(8, 2), b"/")


def test_places_overlap_by_inner_mounts_too(tmp_path: Path) -> None:
    machine = nas(tmp_path)
    web, photos, other = (mounts.places(path, machine) for path in (b"/volume1/web", b"/volume1/photos/a", b"/volume2"))
    assert mounts.overlap(web, photos)
    assert mounts.overlap(photos, web)
    assert not mounts.overlap(web, other)
    assert not mounts.overlap([(1, b"/a")], [(1, b"/ab")])


def test_a_disk_spins_if_any_below_it_does(tmp_path: Path) -> None:
    sys = nas(tmp_path).sys
    spins = {
        name: mounts.is_rotational(os.makedev(*name), sys) for name in ((8, 2), (8, 17), (8, 16), (254, 0), (9, 0))
    }
    assert spins == {(8, 2): False, (8, 17): True, (8, 16): True, (254, 0): True, (9, 0): True}
    assert not mounts.is_rotational(os.makedev(99, 1), sys), "not known is no"


def test_a_virtual_disk_is_not_believed_to_spin(tmp_path: Path) -> None:
    """The kernel says so of every disk that nobody told it more about."""
    machine = nas(tmp_path)
    disk(machine, "vda", "252:0", rotational=True, partitions={"vda1": "252:1"})
    assert not mounts.is_rotational(os.makedev(252, 1), machine.sys)


def test_filesystems_on_one_disk_have_one_key(tmp_path: Path) -> None:
    machine = nas(tmp_path)
    assert mounts.disk_of(os.makedev(8, 17), machine.sys) == mounts.disk_of(os.makedev(8, 16), machine.sys) == "sdb"
    assert mounts.disk_of(os.makedev(9, 0), machine.sys) == "sda,sdb"
    assert mounts.disk_of(os.makedev(99, 1), machine.sys) == "99:1"
    assert mounts.block_device(b"/volume3/x", machine) == os.makedev(8, 80), "a btrfs's own number is no disk's"


# --- This machine -----------------------------------------------------------------------------------------
def test_links_and_trailing_slashes_lead_to_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    place = mounts.canonical(os.fsencode(tmp_path / "a" / "b"))
    assert mounts.canonical(os.fsencode(tmp_path) + b"/link/b/") == place
    assert place[0] == os.stat(tmp_path).st_dev or os.major(place[0]) == 0


def test_the_name_of_this_machine_s_disk_is_not_its_number(tmp_path: Path) -> None:
    name = mounts.filesystem_name(os.fsencode(tmp_path))
    kind, _, rest = name.partition(":")
    assert kind
    assert rest
    assert mounts.disk_of(mounts.block_device(os.fsencode(tmp_path)))
    assert mounts.is_rotational(mounts.block_device(os.fsencode(tmp_path))) in (True, False)


def test_a_real_bind_mount_and_a_real_filesystem_inside(tmp_path: Path) -> None:
    for name in ("a/in", "b", "a/with blank"):
        (tmp_path / name).mkdir(parents=True)
    root = os.fsencode(tmp_path)
    with mounted("--bind", str(tmp_path / "a"), str(tmp_path / "b")):
        assert mounts.canonical(root + b"/b/in") == mounts.canonical(root + b"/a/in")
        assert mounts.overlap(mounts.places(root + b"/b"), mounts.places(root + b"/a/in"))
        with mounted("-t", "tmpfs", "inner disk", str(tmp_path / "a" / "with blank")):
            assert mounts.mounts_below(root + b"/a")[b"with blank"] == "tmpfs:inner disk"
            assert not mounts.overlap(mounts.places(root + b"/a/in"), mounts.places(root + b"/a/with blank"))
    assert set(mounts.mounts_below(root + b"/a")) == {b""}


def test_the_mountinfo_of_a_machine_without_a_root_mount_is_still_read(tmp_path: Path) -> None:
    machine = nas(tmp_path, b"5 5 0:1 / / rw - rootfs rootfs rw\n6 5 8:2 / / rw - ext4 /dev/sda2 rw\n")
    assert mounts.read(machine).at(b"/a").id == 6
    with pytest.raises(FileNotFoundError):
        mounts.read(Machine(mountinfo=tmp_path / "none"))
