"""Files that nobody should be harmed by: real ones with bytes cut off or bits turned, and ones made to do harm."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from PIL import Image

from tests.thumbnails.pictures import IMAGES, VIDEOS, chunk, encoded, flat_png, png_header, sample, scene, video, zeros


class Hostile(NamedTuple):
    name: str
    media_type: str
    data: bytes
    #: A sparse file is made this long: it costs nothing, and takes for ever to read.
    length: int = 0


def damaged(random_: random.Random, each: int) -> Iterator[Hostile]:
    """Of each format, files that are cut off anywhere, or in which some bits are turned, early and late."""
    for kind in (*IMAGES, *VIDEOS):
        media_type = "video" if kind in VIDEOS else "image"
        good = sample(kind)
        for number in range(each):
            if number % 3 == 0:
                yield Hostile(f"cut {kind} {number}", media_type, good[: random_.randrange(1, len(good))])
                continue
            data = bytearray(good)
            # Headers are where a bit matters most.
            reach = min(len(data), 600) if number % 3 == 1 else len(data)
            for _ in range(random_.choice((1, 3, 20))):
                data[random_.randrange(reach)] ^= 1 << random_.randrange(8)
            yield Hostile(f"bits {kind} {number}", media_type, bytes(data))


def bombs() -> Iterator[Hostile]:
    for name, data in _pictures():
        yield Hostile(name, "image", data)
    for name, data in _videos():
        yield Hostile(name, "video", data)
    for kind in ("jpeg", "png", "gif", "bmp", "tiff", "webp", "avif", "heic"):
        yield Hostile(f"endless {kind}", "image", sample(kind)[: len(sample(kind)) // 2], 1 << 38)
    for kind in ("mpg", "avi", "mkv", "mp4", "wmv"):
        yield Hostile(f"endless {kind}", "video", sample(kind)[: len(sample(kind)) // 2], 1 << 38)
    for name, data in (("empty", b""), ("byte", b"\xff"), ("zip", b"PK\3\4" + b"\0" * 60), ("zeros", b"\0" * 5000)):
        yield Hostile(name, "image", data)
        yield Hostile(name, "video", data)


def _pictures() -> Iterator[tuple[str, bytes]]:
    yield "png of 2.5 gigapixels", png_header(50_000, 50_000) + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    yield "png of no pixels", png_header(0, 0) + chunk(b"IEND", b"")
    yield "png of 99 megapixels", flat_png(11_000, 9_000)
    small = chunk(b"IDAT", zlib.compress(b"\0" * (100 * 301)))
    inflating = zeros(3_000_000_000)
    yield "png with too much in it", png_header(100, 100) + chunk(b"IDAT", inflating) + chunk(b"IEND", b"")
    yield "png with a bomb for a text", png_header(100, 100) + chunk(b"zTXt", b"a\0\0" + inflating) + small
    yield "png with a bomb for a profile", png_header(100, 100) + chunk(b"iCCP", b"a\0\0" + inflating) + small
    yield "png of very many chunks", png_header(100, 100) + chunk(b"tEXt", b"a\0b") * 50_000 + small
    gif = bytearray(sample("gif"))
    gif[6:10] = b"\xff" * 4
    yield "gif of 4 gigapixels", bytes(gif)
    yield "gif without an end", b"GIF89a\xff\xff\xff\xff\0\0\0" + b"!\xfe\xff" + b"x" * 255 + b"\xff" * 400_000
    jpeg = sample("jpeg")
    frame = jpeg.index(b"\xff\xc0")
    yield "jpeg of 4 gigapixels", jpeg[: frame + 5] + b"\xff\xdc\xff\xdc" + jpeg[frame + 9 :]
    yield "jpeg of 90 megapixels, too short", jpeg[: frame + 5] + struct.pack(">HH", 9000, 10_000) + jpeg[frame + 9 :]
    yield "jpeg of very many scans", _scans()
    yield "jpeg of very many comments", jpeg[:2] + b"\xff\xfe\0\x04ab" * 60_000 + jpeg[2:]
    bmp = bytearray(sample("bmp"))
    bmp[18:26] = struct.pack("<ii", 2**31 - 1, -(2**31))
    yield "bmp of 2^62 pixels", bytes(bmp)
    yield "tiff that is its own next page", _tiff([(256, 4, 1, 8), (257, 4, 1, 8)], following=8)
    yield "tiff of 2^64 pixels", _tiff([(256, 4, 1, 2**32 - 1), (257, 4, 1, 2**32 - 1), (259, 3, 1, 1)])
    yield "tiff with a tag of 4 GB", _tiff([(256, 4, 1, 100), (257, 4, 1, 100), (273, 4, 2**32 - 1, 8)])
    tiff = encoded(scene((320, 240)), "tiff", compression="tiff_lzw")
    yield "tiff whose strips lie outside", tiff.replace(struct.pack("<I", len(tiff)), b"\xff\xff\xff\x7f")
    webp = encoded(Image.new("RGB", (64, 64)), "webp", lossless=True)
    size = webp.index(b"VP8L") + 9
    yield "webp of 268 megapixels", webp[:size] + struct.pack("<I", (1 << 28) - 1) + webp[size + 4 :]
    for kind in ("heic", "avif"):
        data = sample(kind)
        place = data.index(b"ispe") + 8
        yield f"{kind} of 2^62 pixels", data[:place] + b"\x7f\xff\xff\xff" * 2 + data[place + 8 :]
    yield "svg", b"<?xml version='1.0'?><!DOCTYPE s [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><svg>&a;</svg>"
    yield "postscript", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99999 99999\n(/etc/passwd) (r) file\n"


def _scans() -> bytes:
    """A small file, each of whose scans goes over all of its 20 million pixels."""
    data = encoded(Image.new("L", (5_000, 4_000)), "jpeg", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * 1000 + data[-2:]


def _tiff(entries: list[tuple[int, int, int, int]], following: int = 0) -> bytes:
    packed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + packed + struct.pack("<I", following) + b"\0" * 200


def _videos() -> Iterator[tuple[str, bytes]]:
    mjpeg = video("avi", 3, codec="mjpeg")
    frame = struct.pack(">HH", 120, 160)
    yield "avi whose frames are of 4 gigapixels", mjpeg.replace(frame, b"\xff\xdc\xff\xdc")
    head = mjpeg.index(b"strf") + 12
    yield "avi that says it is of 2^62 pixels", mjpeg[:head] + b"\xff\xff\xff\x7f" * 2 + mjpeg[head + 8 :]
    mp4 = sample("mp4")
    for box in (b"stts", b"stsz", b"stco", b"stsc", b"ctts"):
        place = mp4.find(box)
        if place >= 0:
            count = place + (12 if box == b"stsz" else 8)
            yield f"mp4 with 2^32 entries in {box.decode()}", mp4[:count] + b"\xff" * 4 + mp4[count + 4 :]
    coded = mp4.index(b"avc1", mp4.index(b"stsd")) + 28
    yield "mp4 that says it is of 4 gigapixels", mp4[:coded] + b"\xff\xff\xff\xff" + mp4[coded + 4 :]
    yield "mp4 of boxes in boxes", mp4[:32] + b"\0\0\0\x10moov\0\0\0\x08udta" * 50_000
    mkv = sample("mkv")
    yield "mkv of elements without an end", mkv[:60] + b"\x1f\x43\xb6\x75\x01\xff\xff\xff\xff\xff\xff\xff" * 20_000
    yield "mpeg of headers alone", b"\0\0\1\xba" * 300_000
    yield "playlist", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n" * 10
    yield "frames of black for ever", video("avi", 700, black=700, codec="mjpeg", size=(64, 48))
