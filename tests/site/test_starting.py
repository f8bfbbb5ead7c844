"""The checks before a start, one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dedupfs_site.environment import SettingError
from dedupfs_site.secret_key import load_or_make
from dedupfs_site.starting import CannotStart, check_filesystem, check_state_folder, filesystem_of, state_lock
from tests.conftest import ROOT

MOUNTS = """\
22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
41 27 0:41 / /srv rw,relatime shared:12 master:3 - nfs4 nas:/export rw,vers=4.2
42 41 0:42 / /srv/local\\040disk rw,relatime - xfs /dev/sdb1 rw
43 27 0:43 / /mnt/win rw - cifs //nas/share rw
44 27 0:44 / /mnt/ssh rw - fuse.sshfs me@nas: rw
45 27 0:45 / /mnt/back\\134slash rw - smb3 //nas/b rw
46 27 0:46 / /over rw - nfs nas:/old rw
47 46 0:47 / /over rw - btrfs /dev/sdc rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/dedupfs", "ext4"),
        ("/srv/dedupfs/state", "nfs4"),
        ("/srvother/state", "ext4"),
        ("/srv/local disk/state", "xfs"),
        ("/mnt/win", "cifs"),
        ("/mnt/ssh/a/b/c", "fuse.sshfs"),
        ("/mnt/back\\slash/x", "smb3"),
        ("/over/state", "btrfs"),
    ],
)
def test_filesystem_of_finds_the_mount_that_holds_a_path(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind


def test_filesystem_of_knows_nothing_where_there_is_no_list() -> None:
    assert filesystem_of(Path("/srv"), "") == ""


@pytest.mark.parametrize("folder", ["/srv", "/mnt/win", "/mnt/ssh", "/mnt/back\\slash"])
def test_check_filesystem_refuses_the_network(folder: str) -> None:
    with pytest.raises(CannotStart, match="on a network filesystem"):
        check_filesystem(Path(folder) / "dedupfs.sqlite3", MOUNTS)


def test_check_filesystem_takes_a_local_disk() -> None:
    check_filesystem(Path("/var/lib/dedupfs.sqlite3"), MOUNTS)


def test_check_state_folder_makes_a_private_one_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    check_state_folder(tmp_path / "a" / "state")
    assert (tmp_path / "a" / "state").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "a" / "state").iterdir()) == []


def test_check_state_folder_refuses_a_place_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotStart, match="can't be written to"):
        check_state_folder(tmp_path / "file" / "state")


def test_state_lock_is_free_again_afterwards(tmp_path: Path) -> None:
    with state_lock(tmp_path), pytest.raises(CannotStart, match="already runs"), state_lock(tmp_path):
        pass
    with state_lock(tmp_path):
        pass


def test_secret_key_is_the_same_for_all_who_start_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from dedupfs_site.secret_key import load_or_make;"
        "print(load_or_make(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "state")]
    racers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    keys = {racer.communicate(timeout=60)[0] for racer in racers}
    assert len(keys) == 1
    assert len(keys.pop().strip()) >= 50
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["secret_key"]
    assert (tmp_path / "state" / "secret_key").stat().st_mode & 0o777 == 0o600


def test_secret_key_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("short")
    with pytest.raises(SettingError, match="too short"):
        load_or_make(tmp_path)
