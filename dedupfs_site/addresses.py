"""Which names DedupFS answers to, worked out from where it listens and how people reach it."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from dedupfs_site.environment import SettingError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


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
        return f"{self.scheme}://{self.host}{f':{self.port}' if self.port else ''}"


def parse_public_url(raw: str) -> PublicUrl:
    if not raw:
        return PublicUrl()
    parts = urlsplit(raw)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise SettingError(f"DEDUPFS_PUBLIC_URL={raw!r}: write it like https://nas.example.org/dedupfs")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return PublicUrl(parts.scheme, host, parts.port, parts.path.rstrip("/"))


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
    if bind in ("0.0.0.0", "::", "[::]"):  # noqa: S104  comparing, not binding
        names += _own_addresses(host)
    else:
        names.append(f"[{bind}]" if ":" in bind and not bind.startswith("[") else bind)
    return list(dict.fromkeys(names))


def _own_addresses(host: str) -> list[str]:
    found: list[str] = []
    try:
        infos = socket.getaddrinfo(host, None)
    except OSError:
        infos = []
    for family, _, _, _, address in infos:
        found.append(f"[{address[0]}]" if family == socket.AF_INET6 else str(address[0]))
    # The address used for the outside is often missing from the host's own name. Connecting a datagram
    # socket sends nothing; it only asks the routing table which address would be used.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found.append(str(probe.getsockname()[0]))
        except OSError:
            pass
    return found
