"""The files in `deploy/` fit the code: commands, settings, times, and what must not be taken away from a service."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from dedupfs_site.environment import DECLARED
from tests.conftest import ROOT
from tests.site import written

UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
LONG_RUNNING = [path for path in UNITS if "backup" not in path.name]


class _Unit(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def read(path: Path) -> dict[str, str]:
    """The service's section; a line that stands there twice would be an error."""
    unit = _Unit(interpolation=None)
    unit.read_string(path.read_text())
    return dict(unit["Service"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_is_there(path: Path) -> None:
    service = read(path)
    program, script, words = service["ExecStart"].split(" ", 2)
    assert (program, script) == (f"{service['WorkingDirectory']}/.venv/bin/python", "manage.py")
    assert written.problems(words, written.own_commands()) == []
    assert service["EnvironmentFile"] == "/etc/dedupfs.env"


@pytest.mark.parametrize("path", LONG_RUNNING, ids=lambda path: path.name)
def test_a_service_is_given_the_time_that_it_takes_to_stop(path: Path) -> None:
    service = read(path)
    parts = 2 if " up" in service["ExecStart"] else 1  # the web server, and then the consumer
    assert int(service["TimeoutStopSec"]) >= parts * int(DECLARED["DEDUPFS_STOP_SECONDS"].default) + 15
    assert service["KillMode"] == "mixed"


@pytest.mark.parametrize("path", LONG_RUNNING, ids=lambda path: path.name)
def test_a_service_keeps_what_it_needs(path: Path) -> None:
    """Each of these would break something that no test of ours could see: docs/operating/service.md says what."""
    service = read(path)
    assert service["ProtectSystem"] == "full"
    assert "AF_NETLINK" in service["RestrictAddressFamilies"]
    assert {"ReadWritePaths", "PrivateDevices", "RestrictSUIDSGID", "MemoryDenyWriteExecute"} & set(service) == set()


def test_consumers_are_held_in_like_the_service_itself() -> None:
    one, other = (read(ROOT / "deploy/systemd" / f"{name}.service") for name in ("dedupfs", "dedupfs-consumer@"))
    differ = {"ExecStart", "Restart", "TimeoutStopSec"}
    assert {name: one[name] for name in one if name not in differ} == {
        name: other[name] for name in other if name not in differ
    }


def test_the_example_of_settings_names_settings() -> None:
    text = (ROOT / "deploy/dedupfs.env").read_text()
    names = re.findall(r"^#?([A-Z_]+)=", text, re.MULTILINE)
    assert len(names) >= 5
    assert set(names) <= set(DECLARED)


@pytest.mark.parametrize("path", sorted((ROOT / "deploy/nginx").iterdir()), ids=lambda path: path.name)
def test_a_proxy_hands_on_what_is_read(path: Path) -> None:
    text = path.read_text()
    headers = set(re.findall(r"proxy_set_header (\S+) ", text))
    assert headers == {"Host", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For"}
    assert text.count("{") == text.count("}")
