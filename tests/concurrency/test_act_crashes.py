"""SIGKILL before and after every step of acting: the next run settles it, and ends like an undisturbed one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from database.crash_points import VARIABLE
from duplicates.models import Plan, PlanFile, group_key
from jobs import deciding
from jobs.executing import drain
from jobs.models import Job
from libraries.errors import Refused
from libraries.models import LibraryFile
from tests import factories
from tests.concurrency import racing
from tests.conftest import ROOT, Consumers, Manage
from tests.duplicates.plans import planned
from tests.trash.acts import allow, authorised, carry_out, contents, items, library, trash_of
from tests.waiting import until
from trash import settling, steps
from trash.locking import Busy
from trash.management.commands.act import STOPPED
from trash.models import Act, TrashItem
from trash.settling_intended import NOBODY_SAW

pytestmark = pytest.mark.django_db
ACTIONS = ["trash", "hardlink", "delete"]
#: `plain` is a kernel that can neither exchange two names nor rename without replacing. By `hand` a process of its own
#: moves files, and whichever of the two gets to a point so often dies there; by `hand alone` that process does.
KINDS = ["usual", "plain", "hand", "hand alone"]
#: Kills of each action where not all of them are tried.
FEW = {"usual": 4, "plain": 3, "hand": 3, "hand alone": 3}
#: What is final never goes by a hand.
WAYS = [(action, kind) for action in ACTIONS for kind in KINDS if action != "delete" or kind in ("usual", "plain")]
#: Where two processes share the points, neither comes by all of them.
SHARED = {"hand": 20, "hand alone": 15}
#: Kills there are at least, where all are tried: over all ways more than two hundred.
MANY = {"usual": 68, "plain": 68, "hand": 40, "hand alone": 15}
ENVIRONMENT = {
    "DEDUPFS_YOUNG_HOURS": "0",
    "DEDUPFS_ACT_GRACE_SECONDS": "0",
    "DEDUPFS_ACT_BATCH_FILES": "3",
    "DEDUPFS_ALLOW_REAL_DELETE": "1",
}


@pytest.fixture(autouse=True)
def _allowed(settings: Any) -> None:
    settings.YOUNG_HOURS = 0
    settings.ACT_GRACE_SECONDS = 0
    settings.ACT_BATCH_FILES = 3
    settings.ALLOW_REAL_DELETE = True
    allow()


def grown(folder: str) -> dict[str, bytes]:
    """Small and large files with copies, in folders that become empty, beside one that stays."""
    mark = folder.encode()
    one, two, big = mark + b"-one", mark + b"-two", (mark + b"-big") * 60_000
    return {
        f"{folder}/a": one,
        f"{folder}/b/a-copy": one,
        f"{folder}/b/a-copy2": one,
        f"{folder}/c": two,
        f"{folder}/d/e/c-copy": two,
        f"{folder}/d/stays": mark + b"-alone",
        f"{folder}/big": big,
        f"{folder}/f/g/big-copy": big,
    }


def plan_for(folder: str, action: str) -> Plan:
    rows = LibraryFile.objects.filter(relative_path__startswith=f"{folder}/", content_hash__isnull=False)
    keys = {group_key(row.hash_algorithm or "", row.content_hash or b"") for row in rows}
    plan = planned(action, group_keys=sorted(keys))
    assert plan.remove_count == 4
    Plan.objects.filter(pk=plan.pk).update(removes_empty_folders=True)
    return plan


def found(root: Path, folder: str, act: Act) -> dict[str, Any]:
    """The tree, the trash, and the rows, in words that are the same for every folder that ended the same way."""
    below = root / folder
    tree: dict[str, Any] = {}
    for path in below.rglob("*"):
        name = str(path.relative_to(below))
        tree[name] = None if path.is_dir() else path.read_bytes().replace(folder.encode(), b"")
    links = {name: (below / name).stat().st_nlink for name, data in tree.items() if data is not None}
    by_id = {str(row.plan_file_id): path for path, row in items(act).items()}
    files = trash_of(root, act) / "files"
    trashed = (
        {by_id[path.name].partition("/")[2]: path.stat().st_nlink for path in files.iterdir()} if files.exists() else {}
    )
    rows = LibraryFile.objects.filter(relative_path__startswith=f"{folder}/")
    index = {
        row.relative_path.partition("/")[2]: (
            row.is_missing,
            row.is_missing or row.inode == (root / row.relative_path).stat().st_ino,
            row.is_missing or row.mtime_ns == (root / row.relative_path).stat().st_mtime_ns,
        )
        for row in rows
    }
    return {
        "tree": tree,
        "links": links,
        "trash": trashed,
        "items": {path.partition("/")[2]: row.status for path, row in items(act).items()},
        # Of what was removed for good right before the kill nobody can say so: that is its reason.
        "reasons": {
            "" if (row.status, row.reason) == ("deleted", NOBODY_SAW) else row.reason for row in items(act).values()
        },
        "index": index,
        "folders": {row.folder.partition("/")[2] for row in act.removed_folders.filter(is_back=False)},
        "act": (act.status, act.done_count, act.skipped_count, act.bytes_done, act.trashed_count, act.trashed_bytes),
        "plan": Plan.objects.get(acts=act).status,
        "has_proof": bool(act.proof_name),
    }


def everything(root: Path) -> set[bytes]:
    """What is readable, libraries and trashes alike, but for what the trashes keep of their own."""
    own = {"manifest.jsonl", "lock"}
    return {path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name not in own}


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the kernel can do, for this process as well: it settles what the killed ones left."""
    if request.param == "plain":
        monkeypatch.setattr(steps, "_function", lambda: None)
    return str(request.param)


in_each_way = pytest.mark.parametrize(("action", "kind"), WAYS, indirect=["kind"])


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """How often each point is reached."""
    reached: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("trash.steps", "trash.item_storing"):
            patch.setattr(f"{module}.reach", lambda point: reached.update([point]))
        yield reached


class Scene:
    """One library with a folder for each kill, and the folder of a run that nobody disturbed."""

    def __init__(self, root: Path, action: str, kills: int, kind: str = "usual") -> None:
        self.root, self.action, self.kind = root, action, kind
        self.folders = iter(f"k{n:03}" for n in range(kills))
        files = grown("calm")
        for n in range(kills):
            files |= grown(f"k{n:03}")
        library(root, files)
        act = authorised(plan=plan_for("calm", action))
        with counting() as self.points:
            act = carry_out(act)
        assert act.status == "completed", act.note
        self.expected = found(root, "calm", act)
        assert self.expected["act"][1:3] == (4, 0)
        self._take_trash_away()

    def kill(self, environment: dict[str, str], point: str) -> bool:
        """Whether it came by there: which files make a batch, and so how many folders are synced, goes by digests."""
        folder = next(self.folders)
        before = {data for name, data in grown(folder).items()}
        act = authorised(plan=plan_for(folder, self.action))
        killed = kill_hand(act, point) if self.kind == "hand alone" else self._kill(environment, act, point)
        assert before <= everything(self.root), f"{point}: a content is nowhere"
        self.go_on(act)
        assert found(self.root, folder, act) == self.expected, point
        self._take_trash_away()
        return killed

    def _kill(self, environment: dict[str, str], act: Act, point: str) -> bool:
        process = start(environment, act, self.kind, DEDUPFS_CRASH_POINT=point)
        _, errors = process.communicate(timeout=120)
        codes = (0, -signal.SIGKILL, *([STOPPED] if self.kind == "hand" else []))
        assert process.returncode in codes, (point, process.returncode, errors)
        return process.returncode != 0

    def _take_trash_away(self) -> None:
        """So that the next act makes one, in as many steps as the first did."""
        shutil.rmtree(self.root / ".dedupfs-trash", ignore_errors=True)

    def go_on(self, act: Act) -> None:
        job = Job.objects.get(pk=act.job_id)
        factories.expire(job)
        Job.objects.recover()
        carry_out(act)
        settling.tend()
        act.refresh_from_db()
        assert not TrashItem.objects.filter(status__in=TrashItem.OPEN).exists()
        assert Job.objects.get(pk=act.job_id).status == "completed"


def kill_hand(act: Act, point: str) -> bool:
    """This process has read its variables long ago: only the hand that it starts dies."""
    with override_settings(ACT_HAND_FILES=1), pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, point)
        carry_out(act)
    return Job.objects.get(pk=act.job_id).error_code == "HAND_GONE"


def all_points(points: Counter[str]) -> list[str]:
    """Some more than were counted: another order of the files may need them."""
    return [f"{name}:{n}" for name, more in (("disk", 4), ("record", 0)) for n in range(1, points[name] + more + 1)]


@in_each_way
def test_a_killed_act_is_settled_and_carried_on(
    tmp_path: Path, child_environment: dict[str, str], action: str, kind: str
) -> None:
    few = FEW[kind]
    scene = Scene(tmp_path / "photos", action, few, kind)
    points = all_points(scene.points)[: SHARED.get(kind)]
    # Spread over all of it, elsewhere with each action and each kind.
    offset = WAYS.index((action, kind)) * len(points) // (few * len(WAYS))
    kills = [scene.kill(child_environment, points[offset + n * len(points) // few]) for n in range(few)]
    assert sum(kills) >= few - 1


@pytest.mark.torture
@pytest.mark.timeout(3600)
@in_each_way
def test_a_kill_at_any_point_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, child_environment: dict[str, str], action: str, kind: str
) -> None:
    scene = Scene(tmp_path / "photos", action, 250, kind)
    points = all_points(scene.points)
    print(f"{action}, {kind}: {dict(scene.points)}")
    killed = [point for point in points if scene.kill(child_environment, point)]
    print(f"{len(killed)} kills: {' '.join(killed)}")
    assert len(killed) >= MANY[kind]


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_an_act_that_is_killed_again_and_again_comes_to_its_end(tmp_path: Path, run_manage: Manage) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    scene = Scene(tmp_path / "photos", dice.choice(ACTIONS), 1)
    act = authorised(plan=plan_for("k000", scene.action))
    points = all_points(scene.points)
    for _ in range(40):
        run_manage("act", str(act.plan_id), env={**ENVIRONMENT, "DEDUPFS_CRASH_POINT": dice.choice(points)})
        factories.expire(Job.objects.get(pk=act.job_id))
        Job.objects.filter(pk=act.job_id).update(attempts=0)
    scene.go_on(act)
    assert found(scene.root, "k000", act) == scene.expected


# --- Frozen -----------------------------------------------------------------------------------------------
def start(environment: dict[str, str], act: Act, kind: str = "usual", **more: str) -> subprocess.Popen[str]:
    program = ["-m", "tests.concurrency.plain_act"] if kind == "plain" else [str(ROOT / "manage.py"), "act"]
    more |= {"DEDUPFS_ACT_HAND_FILES": "1"} if kind == "hand" else {}
    return subprocess.Popen(
        [sys.executable, *program, str(act.plan_id)],
        env={**environment, **ENVIRONMENT, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_stopped(process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, process.communicate()
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


@pytest.mark.parametrize("action", ACTIONS)
def test_an_executor_frozen_between_proof_and_move_removes_no_last_copy(
    tmp_path: Path, child_environment: dict[str, str], action: str
) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one", "c": b"two", "d/copy": b"two"})
    act = authorised(action)
    frozen = start(child_environment, act, DEDUPFS_STOP_POINT="proved")
    try:
        until(lambda: is_stopped(frozen), "the executor to stand still")
        job = Job.objects.get(pk=act.job_id)
        factories.expire(job)
        Job.objects.recover()
        deciding.requeue_retryable()
        drain("jobs")
        job.refresh_from_db()
        assert job.error_code == "ACT_LOCKED", "another one gives way while the lock is held"
        assert "act" in (job.error_message or "")
        with pytest.raises(Busy):
            settling.settle_all()
        assert everything(root) == {b"one", b"two"}
        victim = PlanFile.objects.filter(plan=act.plan, role="remove").order_by("pk").first()
        assert victim is not None
        assert victim.keeper is not None
        (root / victim.keeper.relative_path).unlink()
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    frozen.communicate(timeout=60)
    assert everything(root) == {b"one", b"two"}
    carry_out(act)
    assert everything(root) == {b"one", b"two"}
    assert items(act)[victim.relative_path].status == "skipped"


def outside(root: Path) -> set[bytes]:
    """Every content that is in no trash."""
    files = (path for path in root.rglob("*") if path.is_file() and ".dedupfs-trash" not in path.parts)
    return {path.read_bytes() for path in files}


def by_hand(action: str, keep: list[str], remove: list[str]) -> Plan:
    """A plan over these files, whatever any rule says."""
    ids = dict(LibraryFile.objects.values_list("relative_path", "pk"))
    choices = {str(ids[path]): "keep" for path in keep} | {str(ids[path]): "remove" for path in remove}
    plan = planned(action, rules=[], choices=choices)
    assert plan.remove_count == len(remove)
    return plan


@pytest.mark.parametrize("action", ACTIONS)
def test_no_other_plan_is_carried_out_while_one_is_frozen_and_no_last_copy_goes(
    tmp_path: Path, child_environment: dict[str, str], run_manage: Manage, action: str
) -> None:
    root = tmp_path / "photos"
    library(root, {"a": b"one", "b/copy": b"one", "c": b"two", "d/copy": b"two"})
    plans = [by_hand(action, *pair) for pair in ((["a"], ["b/copy"]), (["c"], ["d/copy"]), (["b/copy"], ["a"]))]
    act, overlapping = authorised(plan=plans[0]), plans[2]
    frozen = start(child_environment, act, DEDUPFS_STOP_POINT="proved")
    try:
        until(lambda: is_stopped(frozen), "the executor to stand still")
        factories.expire(Job.objects.get(pk=act.job_id))
        Job.objects.recover()
        with pytest.raises(Refused, match=f"Plan {act.plan_id}, authorised by ada"):
            authorised(plan=overlapping)
        other = authorised(plan=plans[1])
        deciding.requeue_retryable()
        drain("jobs")
        codes = Job.objects.filter(pk__in=[act.job_id, other.job_id]).values_list("error_code", flat=True)
        assert list(codes) == ["ACT_LOCKED"] * 2, "both wait for the lock"
        refused = run_manage("act", str(other.plan_id), env=ENVIRONMENT)
        assert (refused.returncode, "Somebody else acts on files" in refused.stderr) == (4, True), refused.stderr
        assert contents(root) == {"a": b"one", "b/copy": b"one", "c": b"two", "d/copy": b"two"}
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    frozen.communicate(timeout=60)
    assert outside(root) == {b"one", b"two"}
    for each in (act, other):
        each = carry_out(each)
        assert (each.status, each.done_count, each.skipped_count) == ("completed", 1, 0)
    # The overlapping one may be authorised now; it keeps what is gone by now, or a link of what it would take.
    late = carry_out(authorised(plan=overlapping))
    assert (late.status, late.done_count, late.skipped_count) == ("completed", 0, 1)
    assert outside(root) == {b"one", b"two"}


@pytest.mark.parametrize(
    ("action", "round_number"),
    [
        ("delete", 0),
        ("trash", 0),
        *(pytest.param("delete", number, marks=pytest.mark.torture) for number in range(1, 10)),
    ],
)
def test_overlapping_plans_authorised_at_once_before_two_consumers_leave_every_content(
    tmp_path: Path,
    child_environment: dict[str, str],
    start_consumer: Consumers,
    action: str,
    round_number: int,
) -> None:
    root, groups = tmp_path / "photos", range(8)
    files = {f"{n}/{name}": b"content %d" % n for n in groups for name in ("a", "b", "c")}
    files |= {f"{n}/{name}": b"more %d" % n for n in groups for name in ("d", "e")}
    library(root, files)
    # Together the first two would take all of three copies; the third one meets neither, so that both consumers have
    # something to do.
    keeps = {"a": ("b", "c"), "b": ("a", "c"), "d": ("e",)}
    plans = [
        by_hand(action, [f"{n}/{keep}" for n in groups], [f"{n}/{name}" for n in groups for name in gone])
        for keep, gone in keeps.items()
    ]
    for _ in range(2):
        start_consumer(**ENVIRONMENT)
    gate, environment = tmp_path / "gate", {**child_environment, **ENVIRONMENT}
    racers = [
        racing.start("authorising_racer", environment, f"admin{n}", gate, plan.pk) for n, plan in enumerate(plans)
    ]
    answers = [" ".join(lines) for lines in racing.release(racers, gate)]
    assert answers[2].startswith("authorised"), answers
    first, second = (answer.startswith("authorised") for answer in answers[:2])
    # Both only where the first had been carried out before the second asked.
    assert first or second, answers
    until(lambda: not Act.objects.filter(status__in=Act.LIVING).exists(), "every act to end")
    for plan in Plan.objects.filter(status="ready"):
        authorised(plan=plan)
    until(lambda: not Act.objects.filter(status__in=Act.LIVING).exists(), "the late ones to end")
    assert set(Act.objects.values_list("status", flat=True)) == {"completed"}
    assert set(Act.objects.values_list("plan_id", flat=True)) == {plan.pk for plan in plans}
    assert outside(root) == set(files.values())
    for n in groups:
        left = [name for name in ("a", "b", "c") if (root / f"{n}/{name}").exists()]
        assert len(left) == 1, "one plan took two of them, the other one none"


def test_two_consumers_carry_out_two_plans_one_after_the_other(
    tmp_path: Path, start_consumer: Consumers, settings: Any
) -> None:
    root = tmp_path / "photos"
    files: dict[str, bytes] = {}
    for folder in ("k1", "k2"):
        files |= grown(folder)
    library(root, files)
    acts = [authorised(plan=plan_for(folder, "trash")) for folder in ("k1", "k2")]
    for _ in range(2):
        start_consumer(**ENVIRONMENT)
    ids = [act.pk for act in acts]
    until(lambda: Act.objects.filter(pk__in=ids, status="completed").count() == 2, "both plans to be carried out")
    assert everything(root) >= set(files.values())
    for act in acts:
        act.refresh_from_db()
        assert (act.done_count, act.skipped_count) == (4, 0)
