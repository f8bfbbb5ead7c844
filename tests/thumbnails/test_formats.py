from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_django import Settings

from thumbnails import formats
from thumbnails.formats import media_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("names", "media_type"),
    [
        ("a.jpg b.JPEG", "image"),
        ("a.png", "image"),
        ("a.gif", "image"),
        ("a.webp", "image"),
        ("a.bmp", "image"),
        ("a.tif a.TIFF", "image"),
        ("a.heic", "image"),
        ("a.heif", "image"),
        ("a.avif", "image"),
        ("a.mp4", "video"),
        ("a.mov", "video"),
        ("a.m4v", "video"),
        ("a.mkv", "video"),
        ("a.avi", "video"),
        ("a.webm", "video"),
        ("a.mpg a.mpeg", "video"),
        ("a.wmv", "video"),
    ],
)
def test_knows_every_format_of_the_protocol(names: str, media_type: str) -> None:
    for name in names.split():
        assert media_of(name) == media_type


def test_takes_names_as_bytes_that_are_no_text() -> None:
    assert media_of(b"folder/\xff\xfe\xe9.JPG") == "image"
    assert media_of(b"picture.jp\xff") is None


@pytest.mark.parametrize("name", ["a.txt", "jpg", ".jpg", "a.jpg/readme", "a.jpg.txt", "", "folder/.mp4", "a.svg"])
def test_leaves_other_names_alone(name: str) -> None:
    assert media_of(name) is None


def test_asks_for_decoders_in_another_process_and_only_once_needed() -> None:
    code = (
        "import sys, django; django.setup(); import thumbnails.formats as f; f.media_of('a.txt')\n"
        "assert not f._known.kinds; f.media_of('a.mp4')\n"
        "print([name for name in ('PIL', 'av', 'pillow_heif') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_admits_only_what_the_libraries_here_decode(tmp_path: Path) -> None:
    """As on a machine on which libheif and ffmpeg are missing, or broken."""
    for name in ("pillow_heif", "av"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not on this machine')")
    program = (
        "import sys, runpy; sys.path.insert(0, sys.argv[1]); runpy.run_module('thumbnails.codecs', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert set(found) == {"jpeg", "png", "gif", "bmp", "tiff", "webp", "avif"}
    everything = subprocess.run(
        [sys.executable, "-m", "thumbnails.codecs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert set(everything.stdout.split()) >= {"heif", "mov", "matroska", "webm", "avi", "mpeg", "asf"}


def test_asks_again_after_a_while_where_not_all_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """A program in place of the real one, which breaks after its first answer, hangs, can't be started, and works."""
    program = tmp_path / "thumbnails" / "codecs.py"
    program.parent.mkdir()
    settings.BASE_DIR = tmp_path
    monkeypatch.setattr(formats, "_known", formats._Known())

    def asked(code: str) -> set[str]:
        program.write_text(code)
        return set(formats.decodable())

    assert asked("print('jpeg'); raise SystemExit(3)") == {"jpeg"}
    assert asked("print('png')") == {"jpeg"}, "that holds for a minute"
    monkeypatch.setattr(formats, "AGAIN_SECONDS", -1)
    monkeypatch.setattr(formats, "_known", formats._Known())
    with monkeypatch.context() as patch:
        patch.setattr(formats, "ASKING_SECONDS", 8)  # it has to get as far as its first answer
        assert asked("import time; print('gif', flush=True); time.sleep(60)") == {"gif"}
    settings.BASE_DIR = tmp_path / "nowhere"
    assert asked("") == {"gif"}
    settings.BASE_DIR = tmp_path
    assert asked("print('jpeg png')") == {"jpeg", "png"}
    assert asked("") == {"jpeg", "png"}, "that holds for ever"
