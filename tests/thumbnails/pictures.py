"""Real pictures and videos from real encoders, and a look at whether a small picture shows what the large one did."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import av
import av.logging
import pillow_heif
from PIL import Image, ImageCms, ImageDraw

from thumbnails.images import UPRIGHT

pillow_heif.register_heif_opener()
av.logging.set_level(None)
RED, GREEN, BLUE, GREY = (210, 40, 40), (40, 180, 60), (50, 60, 200), (190, 190, 190)
#: Each corner of a scene has its own colour: whichever way it is turned, that is seen.
CORNERS = (RED, GREEN, BLUE, GREY)
IMAGES = ("jpeg", "png", "gif", "webp", "bmp", "tiff", "heic", "avif")
#: By extension: the container and its encoder.
VIDEOS = {
    "mp4": ("mp4", "libx264"),
    "m4v": ("ipod", "libx264"),
    "mov": ("mov", "libx264"),
    "mkv": ("matroska", "libx264"),
    "avi": ("avi", "mpeg4"),
    "webm": ("webm", "libvpx-vp9"),
    "mpg": ("mpeg", "mpeg1video"),
    "mpeg": ("mpeg", "mpeg2video"),
    "wmv": ("asf", "wmv2"),
}


def scene(size: tuple[int, int] = (640, 480), corners: tuple[tuple[int, int, int], ...] = CORNERS) -> Image.Image:
    image = Image.new("RGB", size)
    draw = ImageDraw.Draw(image)
    (width, height), (half_w, half_h) = size, (size[0] // 2, size[1] // 2)
    places = ((0, 0), (half_w, 0), (0, half_h), (half_w, half_h))
    for (left, top), colour in zip(places, corners, strict=True):
        draw.rectangle((left, top, left + width, top + height), fill=colour)
        if (left, top) == (0, half_h):
            draw.rectangle((half_w, half_h, width, height), fill=corners[3])
    return image


def corners_of(data: bytes, mode: str = "RGB") -> list[tuple[int, ...]]:
    """The colours in the middle of the four quarters of an encoded picture."""
    with Image.open(io.BytesIO(data)) as opened:
        image = opened.convert(mode)
    width, height = image.size
    places = [(width * x // 4, height * y // 4) for y in (1, 3) for x in (1, 3)]
    return [pixel for place in places if isinstance(pixel := image.getpixel(place), tuple)]


def is_close(found: tuple[int, ...], wanted: tuple[int, ...], by: int = 14) -> bool:
    return all(abs(one - other) <= by for one, other in zip(found, wanted, strict=True))


def shows_scene(data: bytes, by: int = 14, corners: tuple[tuple[int, int, int], ...] = CORNERS) -> bool:
    return all(is_close(found, wanted, by) for found, wanted in zip(corners_of(data), corners, strict=True))


def encoded(image: Image.Image, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, {"heic": "HEIF"}.get(format, format.upper()), **options)
    return out.getvalue()


def oriented(orientation: int, format: str) -> bytes:
    """The scene as a camera that was held that way stores it, with the note of how to turn it back."""
    back = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}.get(orientation, UPRIGHT.get(orientation))
    stored = scene() if back is None else scene().transpose(back)
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(stored, format, exif=exif)


def turned_heic(orientation: int, quarters: int) -> bytes:
    """As a telephone writes it: the file itself says how it is turned, in quarters to the left, and the camera's note
    says the same once more. The encoder here writes only the note, so the box is put in by hand."""
    data = bytearray(oriented(orientation, "heic"))
    box = struct.pack(">I4sB", 9, b"irot", quarters)
    properties, uses, places = data.index(b"ipco") - 4, data.index(b"ipma") - 4, data.index(b"iloc") - 4
    count = data[uses + 18]
    end = uses + int.from_bytes(data[uses : uses + 4], "big")
    data[end:end] = bytes([0x80 | (count + 1)])
    data[uses + 18] = count + 1
    data[uses:uses] = box
    grown = {properties: 9, uses + 9: 1, data.index(b"iprp") - 4: 10, data.index(b"meta") - 4: 10}
    # Two items, the picture and the note, whose places are counted from the beginning of the file.
    grown |= {places + 16 + 4 + 18 * item: 10 for item in range(2)}
    for place, more in grown.items():
        data[place : place + 4] = (int.from_bytes(data[place : place + 4], "big") + more).to_bytes(4, "big")
    return bytes(data)


def swapping_profile() -> bytes:
    """A colour profile whose red is what sRGB calls green, and the other way round."""
    plain = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    red, green = plain.index(b"rXYZ"), plain.index(b"gXYZ")
    plain[red : red + 4], plain[green : green + 4] = b"gXYZ", b"rXYZ"
    return bytes(plain)


def png_header(width: int, height: int, depth: int = 8, colour: int = 2) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def zeros(length: int) -> bytes:
    """A compressed stream of so many zeros, made in no time: each of its blocks stands for itself."""
    block = 1 << 20
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b"\0" * block) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = zlib.compressobj(9, zlib.DEFLATED, -15)
    end = rest.compress(b"\0" * (length % block)) + rest.flush()
    checked = struct.pack(">I", (length % 65521) << 16 | 1)  # Adler-32 of zeros
    return b"\x78\xda" + packed * (length // block) + end + checked


def flat_png(width: int, height: int, colour: int = 2) -> bytes:
    """A true picture of so many pixels, in few bytes: what it takes is taken by whoever decodes it."""
    body = zeros((1 + width * {0: 1, 2: 3}[colour]) * height)
    return png_header(width, height, colour=colour) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def video(
    extension: str,
    frames: int = 12,
    *,
    black: int = 0,
    codec: str = "",
    size: tuple[int, int] = (160, 120),
    turn: tuple[float, bool, bool] | None = None,
    ratio: Any = None,
    image: Image.Image | None = None,
    options: dict[str, str] | None = None,
) -> bytes:
    """A video at 24 frames a second, the first `black` of them black."""
    container_name, usual = VIDEOS[extension]
    shown, dark = image or scene(size), Image.new("RGB", size)
    out = io.BytesIO()
    with av.open(out, "w", format=container_name) as container:
        stream: Any = container.add_stream(codec or usual, rate=24, options=options or {})
        stream.width, stream.height = size
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        if turn is not None:
            stream.set_display_rotation(turn[0], hflip=turn[1], vflip=turn[2])
        if ratio is not None:
            stream.sample_aspect_ratio = ratio
        for number in range(frames):
            frame = av.VideoFrame.from_image(dark if number < black else shown)  # type: ignore[no-untyped-call]
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return out.getvalue()


@cache
def sample(kind: str) -> bytes:
    """A small real file of that kind, made once."""
    return video(kind) if kind in VIDEOS else encoded(scene((320, 240)), kind)


@contextmanager
def opened(path: Path, data: bytes | None = None) -> Iterator[int]:
    if data is not None:
        path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
