from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from thumbnails.formats import Media, media_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("names", "media_type", "content_type"),
    [
        ("a.jpg b.JPEG", "image", "image/jpeg"),
        ("a.png", "image", "image/png"),
        ("a.gif", "image", "image/gif"),
        ("a.webp", "image", "image/webp"),
        ("a.bmp", "image", "image/bmp"),
        ("a.tif a.TIFF", "image", "image/tiff"),
        ("a.heic", "image", "image/heic"),
        ("a.heif", "image", "image/heif"),
        ("a.avif", "image", "image/avif"),
        ("a.mp4", "video", "video/mp4"),
        ("a.mov", "video", "video/quicktime"),
        ("a.m4v", "video", "video/x-m4v"),
        ("a.mkv", "video", "video/x-matroska"),
        ("a.avi", "video", "video/x-msvideo"),
        ("a.webm", "video", "video/webm"),
        ("a.mpg a.mpeg", "video", "video/mpeg"),
        ("a.wmv", "video", "video/x-ms-wmv"),
    ],
)
def test_knows_every_format_of_the_protocol(names: str, media_type: str, content_type: str) -> None:
    for name in names.split():
        assert media_of(name) == Media(media_type, content_type, name.rpartition(".")[2].lower())


def test_takes_names_as_bytes_that_are_no_text() -> None:
    assert media_of(b"folder/\xff\xfe\xe9.JPG") == Media("image", "image/jpeg", "jpg")
    assert media_of(b"picture.jp\xff") is None


@pytest.mark.parametrize("name", ["a.txt", "jpg", ".jpg", "a.jpg/readme", "a.jpg.txt", "", "folder/.mp4", "a.svg"])
def test_leaves_other_names_alone(name: str) -> None:
    assert media_of(name) is None


def test_asks_for_decoders_in_another_process_and_only_once_needed() -> None:
    code = (
        "import sys, django; django.setup(); import thumbnails.formats as f; f.media_of('a.txt')\n"
        "assert f.decodable.cache_info().currsize == 0; f.media_of('a.mp4')\n"
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
