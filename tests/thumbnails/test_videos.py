"""Each video is from a real encoder and compared by content."""

from __future__ import annotations

import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from tests.thumbnails.pictures import BLUE, CORNERS, GREEN, GREY, RED, VIDEOS, corners_of, opened, shows_scene, video
from thumbnails import videos
from thumbnails.images import Picture
from thumbnails.render_errors import TOO_LARGE, VIDEO_FAILED, RenderError
from thumbnails.source import Source

#: What a counter-clockwise turn, and then flips, make of the corners.
TURNED = {
    (0.0, False, False): CORNERS,
    (90.0, False, False): (GREEN, GREY, RED, BLUE),
    (180.0, False, False): (GREY, BLUE, GREEN, RED),
    (270.0, False, False): (BLUE, RED, GREY, GREEN),
    (0.0, True, False): (GREEN, RED, GREY, BLUE),
    (0.0, False, True): (BLUE, GREY, RED, GREEN),
    (90.0, True, False): (GREY, GREEN, BLUE, RED),
    (90.0, False, True): (RED, BLUE, GREEN, GREY),
}


def small(path: Path, data: bytes, *, pixels: int = 10**8, size: int = 120, seconds: float = 30) -> tuple[Picture, int]:
    with opened(path / "file", data) as descriptor:
        source = Source(descriptor, most_at_once=1 << 20)
        picture = videos.render(source, format="webp", max_dimension=size, most_pixels=pixels, seconds=seconds)
    return picture, source.bytes_read


def refusal(path: Path, data: bytes, **more: Any) -> RenderError:
    with pytest.raises(RenderError) as caught:
        small(path, data, **more)
    return caught.value


@pytest.mark.parametrize("frames", [1, 12, 60], ids=["one frame", "half a second", "longer"])
@pytest.mark.parametrize("extension", VIDEOS)
def test_shows_a_frame_of_each_format(tmp_path: Path, extension: str, frames: int) -> None:
    picture, _ = small(tmp_path, video(extension, frames))
    assert (picture.width, picture.height) == (120, 90)
    assert shows_scene(picture.data)


@pytest.mark.parametrize(
    ("extension", "codec"),
    [("mp4", "libsvtav1"), ("mkv", "libx265"), ("webm", "libvpx"), ("avi", "mjpeg"), ("wmv", "wmv1")],
)
def test_shows_a_frame_that_is_not_black_of_other_codecs(tmp_path: Path, extension: str, codec: str) -> None:
    assert shows_scene(small(tmp_path, video(extension, 40, black=25, codec=codec))[0].data)


@pytest.mark.parametrize("extension", VIDEOS)
def test_passes_over_black_frames(tmp_path: Path, extension: str) -> None:
    """Of a film that begins in black for longer than any of the places that are looked at first, and of a short one
    with a single key frame, which is black."""
    assert shows_scene(small(tmp_path, video(extension, 60, black=55))[0].data)
    assert shows_scene(small(tmp_path, video(extension, 12, black=4))[0].data)


def test_shows_black_where_there_is_nothing_else(tmp_path: Path) -> None:
    found = corners_of(small(tmp_path, video("mp4", 30, black=30))[0].data)
    assert all(max(corner) < 10 for corner in found)


@pytest.mark.parametrize("turn", TURNED)
def test_turns_it_upright(tmp_path: Path, turn: tuple[float, bool, bool]) -> None:
    picture, _ = small(tmp_path, video("mp4", 3, turn=turn))
    assert (picture.width, picture.height) == ((90, 120) if turn[0] in (90, 270) else (120, 90))
    assert shows_scene(picture.data, corners=TURNED[turn])


def test_shows_the_shape_in_which_it_is_played(tmp_path: Path) -> None:
    picture, _ = small(tmp_path, video("mkv", 3, ratio=Fraction(2, 1)))
    assert (picture.width, picture.height) == (120, 45)
    picture, _ = small(tmp_path, video("mkv", 3, ratio=Fraction(1, 2)))
    assert (picture.width, picture.height) == (80, 120)


def test_never_enlarges(tmp_path: Path) -> None:
    picture, _ = small(tmp_path, video("mp4", 3), size=1000)
    assert (picture.width, picture.height) == (160, 120)


def test_reads_little_of_a_long_video(tmp_path: Path) -> None:
    noise = Image.effect_noise((320, 240), 90).convert("RGB")
    data = video("avi", 120, codec="mjpeg", size=(320, 240), image=noise)
    _, bytes_read = small(tmp_path, data)
    assert len(data) > 2_000_000
    assert bytes_read < len(data) / 4


def test_stops_looking_when_its_time_is_up(tmp_path: Path) -> None:
    """Nothing but black: the best so far is taken at once."""
    data = video("avi", 400, black=400, codec="mjpeg")
    _, patient = small(tmp_path, data)
    _, hasty = small(tmp_path, data, seconds=0)
    assert hasty < patient / 2


@pytest.mark.parametrize("extension", ["mkv", "mpg"])
def test_gives_up_looking_in_a_file_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    """A reader that finds no frame would read on and on: the file ends for it after twice what is worth reading."""
    monkeypatch.setattr(videos, "MOST_BYTES", 1 << 20)
    path, data = tmp_path / "file", video(extension)
    path.write_bytes(data[: len(data) // 2])
    os.truncate(path, 1 << 29)
    with opened(path) as descriptor:
        source = Source(descriptor, most_at_once=1 << 20)
        with suppress(RenderError):
            videos.render(source, format="webp", max_dimension=120, most_pixels=10**8, seconds=30)
    assert source.bytes_read <= 3 << 20


# --- What is no video ---------------------------------------------------------------------------------------
def test_refuses_too_many_pixels(tmp_path: Path) -> None:
    error = refusal(tmp_path, video("mp4", 2), pixels=160 * 120 - 1)
    assert error.code == TOO_LARGE


@pytest.mark.parametrize("data", [b"", b"no video at all" * 50, b"\0" * 100_000])
def test_refuses_what_is_no_video(tmp_path: Path, data: bytes) -> None:
    assert refusal(tmp_path, data).code == VIDEO_FAILED


@pytest.mark.parametrize("extension", ["mp4", "mov"])
def test_refuses_a_video_whose_index_is_cut_off(tmp_path: Path, extension: str) -> None:
    data = video(extension, 30)
    error = refusal(tmp_path, data[: len(data) // 2])
    assert error.code == VIDEO_FAILED
    assert error.message.endswith(".")


@pytest.mark.parametrize("extension", ["mkv", "webm", "mpg", "mpeg", "avi", "wmv"])
def test_shows_what_there_is_of_one_that_can_be_read_from_its_beginning(tmp_path: Path, extension: str) -> None:
    data = video(extension, 60)
    assert shows_scene(small(tmp_path, data[: len(data) * 3 // 4])[0].data)


def test_refuses_sound_alone(tmp_path: Path) -> None:
    path = tmp_path / "sound.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=44100, layout="mono")
        frame = av.AudioFrame(format="s16", layout="mono", samples=1024)
        frame.sample_rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    error = refusal(tmp_path, path.read_bytes())
    assert error.code == VIDEO_FAILED
    assert "no video" in error.message


def test_follows_no_list_of_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in a library must not have others opened, or the network asked."""
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.mp4"
    other.write_bytes(video("mp4", 12))
    lists = (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{other}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile '{other}'\n",
        "ffconcat version 1.0\nfile other.mp4\n",
        f"<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'><BaseURL>{other}</BaseURL></MPD>",
    )
    for text in lists:
        assert refusal(tmp_path, text.encode()).code == VIDEO_FAILED
