"""`make`, on a copy of what it needs; no package is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

#: What is compiled, and what comes of it.
SOURCES = {
    "libraries/blake3_many.c": ".venv/native/blake3_many.so",
    "libraries/small_files.c": ".venv/native/small_files.so",
    "libraries/unit_pages.c": ".venv/native/unit_pages.so",
    "trash/small_pairs.c": ".venv/native/small_pairs.so",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clone with nothing to install, in a folder with a blank in its name."""
    folder = tmp_path / "a clone"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    shutil.copy(ROOT / "Makefile", folder)
    for source in SOURCES:
        (folder / source).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / source, folder / source)
    (folder / "requirements.lock").write_text("# nothing\n")
    return folder


def make(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHON", "MAKEFLAGS", "MAKELEVEL")
    }
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_install_is_done_once_and_again_when_the_lock_changes(project: Path) -> None:
    first = make(project, "install", f"PYTHON={sys.executable}")
    assert first.returncode == 0, first.stderr
    assert (project / ".venv/bin/python").exists()
    stamp = project / ".venv/installed-requirements.lock"
    made = stamp.stat().st_mtime_ns
    second = make(project, "install")
    assert (second.returncode, second.stdout, stamp.stat().st_mtime_ns) == (0, "", made)
    (project / "requirements.lock").write_text("not-pinned\n")
    for _ in range(2):
        broken = make(project, "install")
        assert broken.returncode != 0
        assert "the packages of requirements.lock could not be installed" in broken.stderr
    (project / "requirements.lock").write_text("# still nothing\n")
    mended = make(project, "install")
    assert (mended.returncode, mended.stdout) == (0, "Installing the packages of requirements.lock\n")


@pytest.mark.parametrize(("source_name", "built_name"), SOURCES.items())
def test_install_compiles_once_and_again_when_the_source_changes(
    project: Path, source_name: str, built_name: str
) -> None:
    built, source = project / built_name, project / source_name
    assert make(project, "install", f"PYTHON={sys.executable}").returncode == 0
    made = built.stat().st_mtime_ns
    make(project, "install")
    assert built.stat().st_mtime_ns == made
    source.write_text(source.read_text() + "\n")
    make(project, "install")
    assert built.stat().st_mtime_ns > made


@pytest.mark.parametrize(("compiler", "told"), [("/nowhere/cc", "no C compiler"), ("false", "could not be compiled")])
def test_install_works_without_a_compiler_and_says_so(project: Path, compiler: str, told: str) -> None:
    make(project, "install", f"PYTHON={sys.executable}")
    for name in SOURCES:
        source = project / name
        source.write_text(source.read_text() + "\n")
    answer = make(project, "install", f"CC={compiler}")
    assert answer.returncode == 0
    assert told in answer.stdout + answer.stderr
    kept = [built for built in SOURCES.values() if (project / built).exists()]
    assert not kept, "one of an older source is not kept"


def build(project: Path, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "scripts/build_native.sh"], cwd=project, env=os.environ | more)


def test_several_may_compile_at_once(project: Path) -> None:
    for _ in range(4):
        shutil.rmtree(project / ".venv", ignore_errors=True)
        assert [each.wait() for each in [build(project) for _ in range(4)]] == [0] * 4
        left = {path.name for path in (project / ".venv/native").iterdir()}
        names = {Path(built).name for built in SOURCES.values()}
        assert left == names | {f"{name}.source" for name in names}


def test_a_compiler_may_have_words_behind_it(project: Path) -> None:
    assert build(project, CC="env cc").wait() == 0
    assert all((project / built).exists() for built in SOURCES.values())


def test_a_python_that_is_too_old_is_refused_in_one_line(project: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2"\n[ "$1" != -c ]\n')
    old.chmod(0o755)
    answer = make(project, "run", f"PYTHON={old}")
    assert answer.returncode != 0
    assert answer.stderr.splitlines()[0] == (
        f"dedupfs: DedupFS needs Python 3.11 or newer, but {old} is Python 3.9.2: name another one with PYTHON=…"
    )
    assert not (project / ".venv").exists()


def test_a_python_that_is_missing_is_refused_in_one_line(project: Path) -> None:
    answer = make(project, "run", "PYTHON=/nowhere/python3")
    assert answer.stderr.splitlines()[0] == (
        "dedupfs: /nowhere/python3 was not found: DedupFS needs Python 3.11 or newer (PYTHON=… names it)"
    )


def test_ci_runs_check_and_test_and_nothing_else() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make")] == ["make check", "make test"]
    assert len(lines) == 5


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_locks_hold_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
