"""Which names DedupFS answers to, worked out from where it listens and how people reach it."""

from __future__ import annotations

import fcntl
import ipaddress
import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dedupfs_site.environment import SettingError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  compared with, not bound to
DEFAULT_PORTS = {"http": 80, "https": 443}
#: The first parts of our own addresses. Below such a sub-path nobody could tell whether the proxy has taken it off.
OWN_PATHS = frozenset({
    "account", "acts", "admin", "api", "duplicates", "favicon.ico", "first-steps", "health", "jobs", "libraries",
    "logbook", "maintenance", "metrics", "now", "plans", "queue", "rules", "settings", "static", "thumbs", "trash",
})  # fmt: skip

_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?", re.IGNORECASE)
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")
#: Linux: ask for an interface's IPv4 address.
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True)
class PublicUrl:
    """The address people type when it is not this machine's own, e.g. behind a TLS proxy."""

    scheme: str = ""
    host: str = ""
    port: int | None = None
    prefix: str = ""

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """As browsers write it: without the port that goes without saying."""
        port = "" if self.port in (None, DEFAULT_PORTS[self.scheme]) else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"


def parse_public_url(raw: str) -> PublicUrl:
    if not raw:
        return PublicUrl()
    found = _parse_url(raw)
    if found is None:
        raise SettingError(f"DEDUPFS_PUBLIC_URL={raw!r}: write it like https://nas.example.org/dedupfs")
    if found.prefix.lstrip("/").partition("/")[0] in OWN_PATHS:
        raise SettingError(f"DEDUPFS_PUBLIC_URL={raw!r}: DedupFS has pages there itself, take another sub-path")
    return found


def parse_origins(raw: list[str]) -> list[str]:
    """Trusted origins as Django compares them; a `*.` before the host stands for every name below it."""
    return [_parse_origin(word) for word in raw]


def _parse_origin(word: str) -> str:
    scheme, mark, rest = word.partition("://*.")
    found = _parse_url(f"{scheme}://{rest}" if mark else word)
    if found is None or found.prefix:
        raise SettingError(f"DEDUPFS_TRUSTED_ORIGINS: {word!r}: write it like https://nas.example.org")
    return found.origin.replace("://", mark) if mark else found.origin


def _parse_url(raw: str) -> PublicUrl | None:
    try:
        parts = urlsplit(raw)
        port = parts.port
    except ValueError:
        return None
    host = _bracketed(parts.hostname or "")
    prefix = parts.path.rstrip("/")
    is_plain = not (parts.query or parts.fragment or parts.username) and _PREFIX.fullmatch(prefix)
    if parts.scheme not in DEFAULT_PORTS or not _is_host(host) or not is_plain:
        return None
    return PublicUrl(parts.scheme, host, port, prefix)


def parse_hosts(raw: list[str]) -> list[str]:
    """Allowed hosts as Django compares them: without a scheme and without a port."""
    return [_parse_host(word) for word in raw]


def _parse_host(word: str) -> str:
    host = _bracketed(word)
    if host != "*" and not _is_host(host.removeprefix(".")):
        raise SettingError(f"DEDUPFS_ALLOWED_HOSTS: {word!r}: write only the name, without http:// and port")
    return host


def parse_bind(raw: str) -> str:
    """An address of this machine to listen on, IPv6 without its brackets."""
    bind = raw.removeprefix("[").removesuffix("]")
    if not _is_host(_bracketed(bind)):
        raise SettingError(f"DEDUPFS_BIND={raw!r}: write an address like 0.0.0.0, without a port (that is PORT)")
    return bind


def _is_host(text: str) -> bool:
    return bool(_HOST_NAME.fullmatch(text)) or _is_ipv6(text.removeprefix("[").removesuffix("]"))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _bracketed(host: str) -> str:
    """IPv6 as it stands in a Host header."""
    return f"[{ipaddress.IPv6Address(host)}]" if _is_ipv6(host) else host


def is_loopback(bind: str) -> bool:
    if bind == "localhost":
        return True
    try:
        return ipaddress.ip_address(bind.strip("[]")).is_loopback
    except ValueError:
        return False


def own_names(bind: str) -> list[str]:
    """Names this machine is known by: loopback always, the others once it listens beyond loopback."""
    names = list(LOOPBACK_NAMES)
    if is_loopback(bind):
        return names
    host = socket.gethostname().lower()
    short = host.split(".")[0]
    names += [host, short, f"{short}.local"]
    names += own_addresses() if bind in EVERYWHERE else [_bracketed(bind)]
    return list(dict.fromkeys(names))


def own_addresses() -> list[str]:
    """Those of this machine's interfaces. No name is looked up: a dead DNS would hold up every start."""
    return [*_ipv4_of_interfaces(), *_ipv4_to_outside(), *_ipv6_of_interfaces()]


def _ipv4_of_interfaces() -> list[str]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # an interface without an address, or no Linux
            found.append(socket.inet_ntoa(answer[20:24]))
    return found


def _ipv4_to_outside() -> list[str]:
    """Connecting a datagram socket sends nothing: it asks the routing table which address would be used."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def _ipv6_of_interfaces() -> list[str]:
    try:
        lines = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found = [ipaddress.IPv6Address(int(line.split()[0], 16)) for line in lines]
    return [f"[{address}]" for address in found if not address.is_link_local]
