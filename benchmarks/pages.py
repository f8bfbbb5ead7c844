"""Does a page take longer over a million files than over none? Every page of ours, from the URL configuration."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import full_site
from benchmarks.options import Options
from benchmarks.report import Section, table
from benchmarks.scratch import run
from benchmarks.web import Web, served

GOAL = 3.0
TRIES, QUICK_TRIES = 15, 5
QUICK_FILES = 50_000
#: Jobs and scans grow old, and pages show the last days: then the databases are made anew.
KEPT_SECONDS = 3 * 86_400
#: Asked for by the pages themselves: the pill that every page has, and what takes a moment and comes after the page.
PARTS = {
    "now": "/now/",
    "home?count": "/?count",
    "duplicates:totals": "/duplicates/totals/",
    "jobs:live": "/jobs/live/",
}


@dataclass(frozen=True)
class Found:
    """What one page took, in seconds."""

    name: str
    #: Over which database it is compared.
    kind: str
    few: list[float] = field(default_factory=list)
    full: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.full) / statistics.median(self.few)

    def row(self) -> list[str]:
        few, full = statistics.median(self.few) * 1000, statistics.median(self.full) * 1000
        beside = "" if self.kind == "empty" else " (one)"
        return [
            f"`{self.name}`", f"{few:.1f}{beside}", f"{full:.1f}", f"**{self.ratio:.2f}**",
            f"{max(self.full) * 1000:.0f}",
        ]  # fmt: skip


def measure(options: Options) -> Iterator[Section]:
    files = QUICK_FILES if options.is_quick else full_site.FILES
    tries = QUICK_TRIES if options.is_quick else TRIES
    sites = {kind: _built(kind, files, options.work) for kind in ("empty", "small", "full")}
    told = {kind: json.loads(run("benchmarks.pages", environment)) for kind, environment in sites.items()}
    with ExitStack() as stack:
        webs = {kind: stack.enter_context(served(sites[kind], told[kind]["cookie"])) for kind in sites}
        pages = _compare(webs, {kind: told[kind]["pages"] for kind in sites}, tries)
        parts = _compare(webs, dict.fromkeys(sites, PARTS), tries, **{"HX-Request": "true"})
    yield Section("Pages", _told(pages, parts, files, tries))


def _compare(webs: dict[str, Web], pages: dict[str, dict[str, str]], tries: int, **headers: str) -> list[Found]:
    """Each page of the full database beside itself over the empty one, or over the small one where it has to be."""
    names = [*pages["full"]]
    missing = {*pages["empty"], *pages["small"]} - {*names}
    assert not missing, f"pages that the full database does not have: {missing}"
    found = [Found(name, "empty" if name in pages["empty"] else "small") for name in names]
    for page in found:  # templates are read, and every thread has its connection
        for kind in (page.kind, "full"):
            webs[kind].get(pages[kind][page.name], **headers)
    for _ in range(tries):
        for page in found:
            for kind, times in ((page.kind, page.few), ("full", page.full)):
                address = pages[kind][page.name]
                answer = webs[kind].get(address, **headers)
                assert answer.status == (404 if page.name == "no such page" else 200), (kind, address, answer.status)
                times.append(answer.seconds)
    return sorted(found, key=lambda page: -page.ratio)


def _told(pages: list[Found], parts: list[Found], files: int, tries: int) -> str:
    groups = int(full_site.GROUPS * files / full_site.FILES)
    worst = pages[0]
    verdict = "reached" if worst.ratio <= GOAL else "MISSED"
    rows, further = ([each.row() for each in some] for some in (pages, parts))
    head = ["page", "empty ms", "full ms", "ratio", "slowest full ms"]
    return (
        f"Every page of ours over {files:,} files in {groups:,} groups (with plans, acts, a trash, jobs, thumbnails, a "
        f"logbook) in SQLite, and over an empty database: answers of the web server as `up` starts it, packed, median "
        f"of {tries} interleaved. A page of something that an empty database can't have is compared with the same page "
        f"in one with a few rows of each kind (“one”). Worst of {len(pages)} pages: `{worst.name}`, "
        f"**{worst.ratio:.2f}** (goal at most {GOAL:g}: {verdict}).\n\n{table(head, rows)}\n\n"
        f"Parts that pages ask for afterwards, or again and again:\n\n{table(head, further)}"
    )


# --- The databases ------------------------------------------------------------------------------------------
def _built(kind: str, files: int, work: Path) -> dict[str, str]:
    """The environment of an installation with such a database; it is made if it is not there, or too old."""
    state = work / "sites" / (kind if kind != "full" else f"full-{files}")
    environment = {
        **os.environ,
        "DEDUPFS_STATE_ROOT": str(state),
        "DJANGO_SETTINGS_MODULE": "dedupfs_site.settings",
        "DATABASE_URL": "",
        "DEDUPFS_LOG_LEVEL": "ERROR",  # the walk to find the pages asks for much that there is not
    }
    marker = state.with_suffix(".done")
    edition = f"{full_site.EDITION}\n"
    is_fresh = marker.exists() and time.time() - marker.stat().st_mtime < KEPT_SECONDS
    if not is_fresh or marker.read_text() != edition:
        marker.unlink(missing_ok=True)
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir(mode=0o700, parents=True)
        print(f"making a database: {kind}", flush=True)
        run("benchmarks.full_site", environment, kind, str(files))
        marker.write_text(edition)
    return environment


# --- In an installation -------------------------------------------------------------------------------------
def _tell() -> dict[str, object]:
    """Who is logged in, and all pages there are. What changed in the code since the database was made is put right."""
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client
    from django.test.utils import setup_test_environment

    from accounts.models import User
    from dedupfs_site.collecting import collect_static_files
    from tests.site.whole_site import Site, named_pages

    call_command("migrate", verbosity=0)
    collect_static_files()
    setup_test_environment()  # its client may ask any host
    admin = User.objects.get(username="ada")
    site = Site(admin, json.loads(Path(settings.STATE_ROOT, full_site.KEYS).read_text()))
    client = Client()
    client.force_login(admin)
    name = settings.SESSION_COOKIE_NAME
    return {"cookie": f"{name}={client.cookies[name].value}", "pages": named_pages(site)}


if __name__ == "__main__":
    import django

    django.setup()
    json.dump(_tell(), sys.stdout)
