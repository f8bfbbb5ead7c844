"""Run a command beside a real PostgreSQL of its own: `python -m tests.with_postgres COMMAND …`.

The server listens on a free loopback port, keeps its files in a temporary folder and is gone afterwards. The command
finds it in DATABASE_URL. Its user is no superuser: it may make databases and roles, as `docs/operating/postgresql.md`
asks for.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

USER = "dedupfs_tests"
#: PostgreSQL refuses to run as root: then it runs as the first of these. Debian's package brings `postgres`; binaries
#: that came in another way (an image, a copy) have no user of their own.
SERVER_USERS = ("postgres", "nobody")


def find_server() -> Path:
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    on_path = shutil.which("initdb")
    found = candidates[0] if candidates else Path(on_path) if on_path else None
    if found is None:
        sys.exit("PostgreSQL's server is missing. Install it (on Debian: apt-get install postgresql) and try again.")
    return found.parent


def server_user() -> pwd.struct_passwd:
    for name in SERVER_USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    sys.exit(
        f"PostgreSQL's server refuses to run as root, and there is no user to run it as ({' or '.join(SERVER_USERS)})."
        " Make one (on Debian: adduser --system postgres), or run this as somebody else."
    )


def as_server_user(command: list[str]) -> list[str]:
    if os.getuid() != 0:
        return command
    return ["runuser", "-u", server_user().pw_name, "--", *command]


def free_port() -> int:
    """A port that nobody else is given as long as this process lives. Servers can listen there all the same: they say,
    as this does, that an address may be used again."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    atexit.register(probe.close)
    return int(probe.getsockname()[1])


@contextmanager
def postgres() -> Iterator[str]:
    """Start a server; yield the address of an empty database on it."""
    binaries = find_server()
    folder = Path(tempfile.mkdtemp(prefix="dedupfs-postgres-"))
    if os.getuid() == 0:
        account = server_user()
        os.chown(folder, account.pw_uid, account.pw_gid)
    port = free_port()
    data, log = folder / "data", folder / "log"
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c full_page_writes=off"
    options += " -c synchronous_commit=off -c max_connections=200"

    def run(*command: str) -> None:
        done = subprocess.run(as_server_user(list(command)), capture_output=True, text=True, cwd=folder)
        if done.returncode != 0:
            sys.exit(
                f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}{log.read_text() if log.exists() else ''}"
            )

    try:
        run(
            str(binaries / "initdb"),
            "-D",
            str(data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        )
        run(str(binaries / "pg_ctl"), "-D", str(data), "-o", options, "-l", str(log), "-w", "start")
        try:
            sql = f"CREATE ROLE {USER} LOGIN CREATEDB CREATEROLE"
            run(str(binaries / "psql"), "-h", str(folder), "-p", str(port), "-U", "postgres", "-c", sql)
            run(
                str(binaries / "createdb"),
                "-h",
                str(folder),
                "-p",
                str(port),
                "-U",
                "postgres",
                "-O",
                USER,
                "dedupfs",
            )
            yield f"postgres://{USER}@127.0.0.1:{port}/dedupfs"
        finally:
            run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    with postgres() as url:
        return subprocess.run(sys.argv[1:], env={**os.environ, "DATABASE_URL": url}).returncode


if __name__ == "__main__":
    sys.exit(main())
