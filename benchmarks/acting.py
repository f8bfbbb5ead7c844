"""What carrying out a plan costs beside its bare work: a loop that reads both files of each pair, compares them and
renames one, over the same tree in the same run; and beside a loop that proves and moves them as safely as an act has
to, and keeps no records. Undoing is timed as well."""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from blake3 import blake3

from benchmarks import cold
from benchmarks.options import Options
from benchmarks.report import Section, table
from benchmarks.scratch import installation, run

PAIRS, QUICK_PAIRS = 100_000, 5_000
#: So many files in a folder.
TOGETHER = 200
GOAL = 2.0


def measure(options: Options) -> Iterable[Section]:
    pairs = QUICK_PAIRS if options.is_quick else PAIRS
    lines = []
    for vendor in ("sqlite", "postgresql"):
        with installation(vendor) as environment:
            environment |= {"DEDUPFS_YOUNG_HOURS": "0", "DEDUPFS_ACT_GRACE_SECONDS": "0"}
            found = json.loads(run("benchmarks.acting", environment, str(pairs), str(options.rounds)))
        each = 1e6 / pairs
        for how, times in found.items():
            plain, moved, act, undo = (statistics.median(times[name]) for name in ("plain", "moved", "act", "undo"))
            figures = [f"{figure * each:.0f} µs" for figure in (plain, moved, act)]
            lines.append([f"{vendor}, {how}", *figures, f"**{act / plain:.2f}**", f"{undo * each:.0f} µs"])
    head = [
        "database, cache", "plain loop, a file", "proved and moved, no records", "acting, a file",
        f"ratio (at most {GOAL:.0f})", "undoing, a file",
    ]  # fmt: skip
    what = (
        f"{pairs:,} pairs of 1 to 16 KiB, {TOGETHER} files in a folder; medians of {options.rounds} interleaved "
        "rounds. Acting is the whole job: proof, trash, manifest, records that outlive a power cut, index, groups and "
        "the proof file. Warm, all files are in memory; cold, none are, as where there is more on the disks than "
        "memory for it."
    )
    return [Section("Acting", f"{what}\n\n{table(head, lines)}")]


# --- In the installation --------------------------------------------------------------------------------------
def _make(root: Path, pairs: int) -> list[tuple[bytes, bytes]]:
    """Keepers and what goes because of them, as paths."""
    dice, made = random.Random(7), []
    for number in range(pairs):
        content = dice.randbytes(dice.randrange(1 << 10, 16 << 10))
        names = [root / side / str(number // TOGETHER) / f"{number}.bin" for side in ("keep", "go")]
        for path in names:
            if number % TOGETHER == 0:
                path.parent.mkdir(parents=True)
            path.write_bytes(content)
        made.append((os.fsencode(names[0]), os.fsencode(names[1])))
    return made


def _read(path: bytes) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123  bytes
        return file.read()


def _plain(pairs: list[tuple[bytes, bytes]], folder: bytes) -> float:
    """Into a new folder, as each act has one."""
    os.mkdir(folder)  # noqa: PTH102  bytes
    began = time.perf_counter()
    for number, (keeper, victim) in enumerate(pairs):
        if _read(keeper) == _read(victim):
            os.rename(victim, folder + b"/%d" % number)  # noqa: PTH104  bytes, and no more than is measured
    took = time.perf_counter() - began
    _put_back(pairs, folder)
    return took


def _moved(pairs: list[tuple[bytes, bytes]], folder: bytes) -> float:
    """The fewest calls that prove a pair and move one of it: both files opened in folders that are open, looked at
    before and after they are read, the one that stays hashed; after the move a look at what was moved, and at what
    stays."""
    os.mkdir(folder)  # noqa: PTH102  bytes
    target, keepers, victims = os.open(folder, os.O_RDONLY), _Side(), _Side()
    began = time.perf_counter()
    for number, (keeper, victim) in enumerate(pairs):
        content = keepers.read(keeper)
        if content == victims.read(victim) and blake3(content).digest():
            os.rename(victims.name, b"%d" % number, src_dir_fd=victims.handle, dst_dir_fd=target)
            os.stat(b"%d" % number, dir_fd=target)
            os.lstat(keeper)
    took = time.perf_counter() - began
    for handle in (target, keepers.handle, victims.handle):
        os.close(handle)
    _put_back(pairs, folder)
    return took


class _Side:
    """Files of one side of the pairs, folder by folder: that of the last one is open."""

    folder, name, handle = b"", b"", -1

    def read(self, path: bytes) -> bytes:
        folder, _, self.name = path.rpartition(b"/")
        if folder != self.folder:
            if self.folder:
                os.close(self.handle)
            self.folder, self.handle = folder, os.open(folder, os.O_RDONLY)
        file = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self.handle)
        before = os.fstat(file)
        content = os.pread(file, before.st_size + 1, 0)
        after = os.fstat(file)
        os.close(file)
        assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
        return content


def _put_back(pairs: list[tuple[bytes, bytes]], folder: bytes) -> None:
    for number, (_, victim) in enumerate(pairs):
        os.rename(folder + b"/%d" % number, victim)  # noqa: PTH104  bytes
    os.rmdir(folder)  # noqa: PTH106  bytes


def _carry_out(rules: list[dict[str, Any]], forget: Callable[[], None]) -> tuple[float, float]:
    """Act and undo; the time of each."""
    from duplicates.planning import checked, plan_now
    from jobs.executing import drain_all
    from trash.authorising import ask_undo, authorise
    from trash.models import TrashItem

    plan = plan_now(checked("trash", rules), actor="benchmark")
    authorise(plan.pk, plan.remove_count, actor="benchmark")
    forget()
    began = time.perf_counter()
    drain_all("jobs")
    act = time.perf_counter() - began
    assert TrashItem.objects.filter(status="trashed").count() == plan.remove_count
    ask_undo({"plan": plan.pk}, actor="benchmark")
    forget()
    began = time.perf_counter()
    drain_all("jobs")
    undo = time.perf_counter() - began
    assert not TrashItem.objects.filter(status="trashed").exists()
    return act, undo


def _main() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from libraries.models import LibraryRoot
    from trash.models import Switches

    pairs, rounds = int(sys.argv[1]), int(sys.argv[2])
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="dedupfs-bench-") as folder:
        root = Path(folder).resolve() / "library"
        made = _make(root, pairs)
        library = LibraryRoot.objects.create(name="bench", root_path=str(root))
        Switches.objects.update_or_create(pk=1, defaults={"is_acting_allowed": True})
        call_command("scan", "bench", now=True, stdout=sys.stderr)
        rules = [{"kind": "keep_in", "folders": [{"library": library.pk, "path": "keep"}]}]
        for how in ("warm", "cold"):
            if how == "cold" and not cold.can_drop(root):
                continue
            times: dict[str, list[float]] = {"plain": [], "moved": [], "act": [], "undo": []}
            for _ in range(rounds):
                # What was just written is on the disk in either case: else its writing back would be timed, too.
                forget = cold.drop if how == "cold" else os.sync
                for name, loop in (("plain", _plain), ("moved", _moved)):
                    forget()
                    times[name].append(loop(made, os.fsencode(Path(folder) / "aside")))
                for name, took in zip(("act", "undo"), _carry_out(rules, forget), strict=True):
                    times[name].append(took)
            found[how] = times
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main()
