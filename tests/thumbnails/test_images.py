"""Each picture is from a real encoder and compared by content."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from tests.thumbnails.pictures import (
    BLUE,
    CORNERS,
    GREEN,
    GREY,
    IMAGES,
    RED,
    chunk,
    corners_of,
    encoded,
    flat_png,
    is_close,
    opened,
    oriented,
    png_header,
    scene,
    shows_scene,
    swapping_profile,
    turned_heic,
)
from thumbnails import images
from thumbnails.images import Picture
from thumbnails.render_errors import DECODE_FAILED, GENERATION_FAILED, TOO_LARGE, RenderError
from thumbnails.source import Source

MOST_AT_ONCE = 64 << 20


def small(path: Path, data: bytes, *, format: str = "webp", size: int = 160, pixels: int = 10**8) -> Picture:
    with opened(path / "file", data) as descriptor:
        source = Source(descriptor, most_at_once=MOST_AT_ONCE)
        return images.render(source, format=format, max_dimension=size, most_pixels=pixels)


def refusal(path: Path, data: bytes, **more: Any) -> RenderError:
    with pytest.raises(RenderError) as caught:
        small(path, data, **more)
    return caught.value


@pytest.mark.parametrize("output", ["webp", "jpeg"])
@pytest.mark.parametrize("format", IMAGES)
def test_renders_each_format(tmp_path: Path, format: str, output: str) -> None:
    picture = small(tmp_path, encoded(scene(), format), format=output)
    assert (picture.width, picture.height) == (160, 120)
    assert shows_scene(picture.data)
    with Image.open(io.BytesIO(picture.data)) as image:
        assert image.format == output.upper()
        assert image.size == (160, 120)


@pytest.mark.parametrize("format", ["jpeg", "png", "webp", "tiff", "heic", "avif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_turns_it_upright(tmp_path: Path, orientation: int, format: str) -> None:
    picture = small(tmp_path, oriented(orientation, format))
    assert (picture.width, picture.height) == (160, 120)
    assert shows_scene(picture.data)


@pytest.mark.parametrize(("orientation", "quarters"), [(6, 3), (3, 2), (8, 1)])
def test_turns_it_once_where_file_and_camera_both_say_so(tmp_path: Path, orientation: int, quarters: int) -> None:
    picture = small(tmp_path, turned_heic(orientation, quarters))
    assert (picture.width, picture.height) == (160, 120)
    assert shows_scene(picture.data)


def test_never_enlarges(tmp_path: Path) -> None:
    picture = small(tmp_path, encoded(scene((50, 30)), "jpeg", quality=95), size=320)
    assert (picture.width, picture.height) == (50, 30)


@pytest.mark.parametrize(("size", "wanted"), [((4000, 10), (160, 1)), ((3, 2000), (1, 160)), ((1, 1), (1, 1))])
@pytest.mark.parametrize("format", ["jpeg", "png"])
def test_keeps_at_least_a_pixel_of_a_strip(
    tmp_path: Path, size: tuple[int, int], wanted: tuple[int, int], format: str
) -> None:
    picture = small(tmp_path, encoded(Image.new("RGB", size, RED), format))
    assert (picture.width, picture.height) == wanted


# --- Colours ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("format", ["jpeg", "tiff"])
def test_renders_cmyk(tmp_path: Path, format: str) -> None:
    assert shows_scene(small(tmp_path, encoded(scene().convert("CMYK"), format)).data)


@pytest.mark.parametrize("mode", ["L", "1"])
def test_renders_grey(tmp_path: Path, mode: str) -> None:
    image = Image.new(mode, (400, 200), 0)
    ImageDraw.Draw(image).rectangle((200, 0, 400, 200), fill=255)
    left, right, *_ = corners_of(small(tmp_path, encoded(image, "png")).data)
    assert is_close(left, (0, 0, 0))
    assert is_close(right, (255, 255, 255))


@pytest.mark.parametrize("format", ["png", "tiff"])
def test_renders_sixteen_bits_of_grey(tmp_path: Path, format: str) -> None:
    row = struct.pack("<200H", *[0x4000] * 200) + struct.pack("<200H", *[0xC000] * 200)
    image = Image.frombytes("I;16", (400, 200), row * 200)
    left, right, *_ = corners_of(small(tmp_path, encoded(image, format)).data)
    assert is_close(left, (64, 64, 64))
    assert is_close(right, (192, 192, 192))


def test_renders_sixteen_bits_of_colour(tmp_path: Path) -> None:
    left, right = (struct.pack(">3H", *(value * 257 for value in colour)) for colour in (RED, BLUE))
    rows = (b"\0" + left * 200 + right * 200) * 200
    data = png_header(400, 200, depth=16) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    found = corners_of(small(tmp_path, data).data)
    assert is_close(found[0], RED)
    assert is_close(found[1], BLUE)


def test_renders_fractions_from_the_darkest_to_the_brightest(tmp_path: Path) -> None:
    image = Image.new("F", (400, 200), -20.0)
    image.paste(5000.0, (200, 0, 400, 200))
    left, right, *_ = corners_of(small(tmp_path, encoded(image, "tiff")).data)
    assert is_close(left, (0, 0, 0))
    assert is_close(right, (255, 255, 255))


@pytest.mark.parametrize("format", ["png", "gif", "bmp", "tiff"])
def test_renders_a_palette(tmp_path: Path, format: str) -> None:
    assert shows_scene(small(tmp_path, encoded(scene().quantize(16), format)).data, by=20)


def test_converts_a_colour_profile_to_srgb(tmp_path: Path) -> None:
    """Red in the numbers is green by the profile."""
    for format in ("jpeg", "png", "webp", "tiff", "heic", "avif"):
        data = encoded(scene(), format, icc_profile=swapping_profile())
        found = corners_of(small(tmp_path, data).data)
        assert found[0][1] > found[0][0] + 60, (format, found)
        assert found[1][0] > found[1][1] + 60, (format, found)


@pytest.mark.parametrize("profile", [b"nonsense", b"\0" * 400, swapping_profile()[:200]])
def test_passes_over_a_profile_that_is_no_good(tmp_path: Path, profile: bytes) -> None:
    assert shows_scene(small(tmp_path, encoded(scene(), "jpeg", icc_profile=profile)).data)


# --- Transparency, frames -----------------------------------------------------------------------------------
def transparent() -> Image.Image:
    image = scene().convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 320, 240))
    return image


@pytest.mark.parametrize("format", ["png", "webp", "tiff", "heic", "avif"])
def test_keeps_transparency_in_webp_and_grounds_it_in_jpeg(tmp_path: Path, format: str) -> None:
    data = encoded(transparent(), format)
    kept = corners_of(small(tmp_path, data).data, "RGBA")
    assert kept[0][3] == 0
    assert is_close(kept[1], (*GREEN, 255))
    grounded = corners_of(small(tmp_path, data, format="jpeg").data)
    assert is_close(grounded[0], images.GROUND)
    assert is_close(grounded[1], GREEN)


def test_knows_transparency_of_palettes_and_of_single_colours(tmp_path: Path) -> None:
    palette = scene().quantize(8)
    key = palette.getpixel((10, 10))
    for data in (
        encoded(palette, "gif", transparency=key),
        encoded(palette, "png", transparency=key),
        encoded(scene(), "png", transparency=RED),
    ):
        kept = corners_of(small(tmp_path, data).data, "RGBA")
        assert kept[0][3] == 0
        assert is_close(kept[3], (*GREY, 255), by=20)


@pytest.mark.parametrize("format", ["gif", "png", "webp", "tiff", "avif"])
def test_shows_the_first_frame(tmp_path: Path, format: str) -> None:
    others = [Image.new("RGB", (640, 480), colour) for colour in (BLUE, GREEN)]
    assert shows_scene(small(tmp_path, encoded(scene(), format, save_all=True, append_images=others)).data, by=20)


@pytest.mark.parametrize("profile", [None, swapping_profile()])
def test_carries_nothing_else_over(tmp_path: Path, profile: bytes | None) -> None:
    exif = Image.Exif()
    exif[0x010F] = "SECRET CAMERA"
    exif.get_ifd(0x8825)[1] = "N"
    data = encoded(scene(), "jpeg", exif=exif, comment=b"SECRET COMMENT", icc_profile=profile, xmp=b"<SECRET/>")
    for format in ("jpeg", "webp"):
        picture = small(tmp_path, data, format=format)
        assert b"SECRET" not in picture.data
        with Image.open(io.BytesIO(picture.data)) as image:
            assert not image.getexif()
            assert not {"icc_profile", "comment", "xmp"} & set(image.info)


# --- What is damaged ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_progressive", [False, True])
def test_shows_a_jpeg_that_is_cut_off_as_far_as_it_goes(tmp_path: Path, is_progressive: bool) -> None:
    noise = Image.effect_noise((640, 480), 40).convert("RGB")
    data = encoded(Image.blend(scene(), noise, 0.2), "jpeg", progressive=is_progressive)
    found = corners_of(small(tmp_path, data[: int(len(data) * 0.6)]).data)
    assert is_close(found[0], corners_of(small(tmp_path, data).data)[0], by=40)


def test_refuses_a_jpeg_of_which_nothing_is_left(tmp_path: Path) -> None:
    data = encoded(scene(), "jpeg")
    error = refusal(tmp_path, data[: data.index(b"\xff\xda") + 14])
    assert error.code == DECODE_FAILED
    assert "cut off" in error.message


@pytest.mark.parametrize("format", ["png", "gif", "webp", "bmp", "tiff", "heic", "avif"])
def test_refuses_others_that_are_cut_off(tmp_path: Path, format: str) -> None:
    data = encoded(scene(), format)
    assert refusal(tmp_path, data[: len(data) // 2]).code == DECODE_FAILED


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "is empty"), (b"Dear reader, " * 99, "not a picture"), (b"II*\0" + b"x" * 99, "damaged")],
)
def test_says_in_a_sentence_what_is_wrong(tmp_path: Path, data: bytes, said: str) -> None:
    error = refusal(tmp_path, data)
    assert error.code == DECODE_FAILED
    assert said in error.message
    assert "object at" not in error.message


def test_goes_by_what_the_file_holds(tmp_path: Path) -> None:
    with opened(tmp_path / "really.jpg", encoded(scene(), "png")) as descriptor:
        source = Source(descriptor, most_at_once=MOST_AT_ONCE)
        picture = images.render(source, format="webp", max_dimension=160, most_pixels=10**8)
    assert shows_scene(picture.data)


@pytest.mark.parametrize(
    "data",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        b"P6 2 2 255 " + b"x" * 12,
        b"8BPS\0\1" + b"\0" * 40,
        b"\0\0\1\0" + b"\0" * 60,
    ],
)
def test_offers_nothing_to_plugins_that_nobody_asked_for(tmp_path: Path, data: bytes) -> None:
    assert refusal(tmp_path, data).code == DECODE_FAILED


def test_refuses_too_many_pixels_before_it_decodes_any(tmp_path: Path) -> None:
    with opened(tmp_path / "bomb", flat_png(3000, 3000)) as descriptor:
        source = Source(descriptor, most_at_once=MOST_AT_ONCE)
        with pytest.raises(RenderError) as caught:
            images.render(source, format="webp", max_dimension=160, most_pixels=8_999_999)
    assert caught.value.code == TOO_LARGE
    assert "3,000 by 3,000" in caught.value.message
    assert source.bytes_read <= 65 << 10


# --- Reading ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("format", IMAGES)
def test_reads_by_position_and_counts(tmp_path: Path, format: str) -> None:
    data = encoded(scene(), format)
    told: list[int] = []
    with opened(tmp_path / "file", data) as descriptor:
        os.lseek(descriptor, 7, os.SEEK_SET)
        source = Source(descriptor, most_at_once=MOST_AT_ONCE, tell=told.append)
        images.render(source, format="webp", max_dimension=160, most_pixels=10**8)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 7
    assert told[-1] == source.bytes_read
    assert len(data) * 0.9 <= source.bytes_read <= len(data) * 2 + 65536


def test_takes_no_file_into_memory_that_is_too_large(tmp_path: Path) -> None:
    data = encoded(scene(), "webp")
    path = tmp_path / "file"
    path.write_bytes(data[:4] + b"\xff\xff\xff\x7f" + data[8:])
    os.truncate(path, MOST_AT_ONCE * 4)
    with opened(path) as descriptor:
        source = Source(descriptor, most_at_once=MOST_AT_ONCE)
        with pytest.raises(RenderError) as caught:
            images.render(source, format="webp", max_dimension=160, most_pixels=10**8)
    assert caught.value.code == TOO_LARGE
    assert source.bytes_read < 1 << 20


def test_tells_a_disk_that_fails_from_a_picture_that_is_damaged(tmp_path: Path) -> None:
    """A folder's descriptor can't be read, as a disk's with a bad block."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        source = Source(descriptor, most_at_once=MOST_AT_ONCE)
        source.size = 4096
        with pytest.raises(RenderError) as caught:
            images.render(source, format="webp", max_dimension=160, most_pixels=10**8)
    finally:
        os.close(descriptor)
    assert caught.value.code == GENERATION_FAILED
    assert "could not be read" in caught.value.message


def test_corners_differ() -> None:
    """Else nothing here would show which way a picture is turned."""
    assert not any(is_close(one, other, 60) for one in CORNERS for other in CORNERS if one is not other)
