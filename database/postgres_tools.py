"""PostgreSQL's own programs, called so that a password is never on a command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from database.errors import DatabaseRoomError

DUMP_MAGIC = b"PGDMP"
#: libpq reads each connection parameter from a variable, too.
VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "service": "PGSERVICE",
    "passfile": "PGPASSFILE",
    "options": "PGOPTIONS",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}
#: Who owns what and who may do what belong to the server it came from; grants are put back after a restore.
PORTABLE = ("--no-owner", "--no-privileges")


class ToolMissing(DatabaseRoomError):
    pass


class ToolFailed(DatabaseRoomError):
    pass


def environment(parameters: dict[str, Any]) -> dict[str, str]:
    """The environment in which a PostgreSQL program connects as Django does."""
    chosen = {
        variable: str(parameters[name])
        for name, variable in VARIABLES.items()
        if parameters.get(name) not in (None, "")
    }
    return {**os.environ, **chosen}


def run(program: str, *arguments: str, parameters: dict[str, Any]) -> str:
    """Run one of the programs to its end; return what it printed."""
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(
            f"{program} is not installed; install PostgreSQL's client programs"
            " (on Debian: apt-get install postgresql-client)"
        )
    done = subprocess.run(
        [found, *arguments],
        env=environment(parameters),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise ToolFailed(f"{program} failed: {_first_line(done.stderr.decode(errors='replace'))}")
    return done.stdout.decode(errors="replace")


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it gave no reason"


def dump(target: Path, parameters: dict[str, Any]) -> None:
    run("pg_dump", "--format=custom", "--no-password", *PORTABLE, f"--file={target}", parameters=parameters)


def dumped_tables(archive: Path) -> set[str]:
    """The tables whose rows are in the archive; ToolFailed where the file is no archive."""
    listing = run("pg_restore", "--list", str(archive), parameters={})
    return set(re.findall(r"^\d+; \d+ \d+ TABLE DATA \S+ (\S+) ", listing, flags=re.MULTILINE))


def read_through(archive: Path) -> None:
    """Read every byte of the archive, as a restore would."""
    run("pg_restore", f"--file={os.devnull}", str(archive), parameters={})


def dumped_migrations(archive: Path) -> set[tuple[str, str]]:
    """The migrations that the archive's database had applied."""
    rows = run("pg_restore", "--data-only", "--table=django_migrations", "--file=-", str(archive), parameters={})
    found = re.findall(r"^\d+\t([^\t\n]+)\t([^\t\n]+)\t", rows, flags=re.MULTILINE)
    return {(app, name) for app, name in found}


def restore(archive: Path, parameters: dict[str, Any]) -> None:
    """Load the archive in one transaction: all of it or nothing."""
    run(
        "pg_restore",
        "--no-password",
        "--single-transaction",
        "--exit-on-error",
        *PORTABLE,
        f"--dbname={parameters['dbname']}",
        str(archive),
        parameters=parameters,
    )


def looks_like_dump(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(DUMP_MAGIC)) == DUMP_MAGIC
