"""`python -m thumbnails.codecs` asks the libraries what they can decode here, and prints it, a word a line.

It is a program of its own, so that a web server need not load every decoder to know which files have pictures.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Which part of Pillow decodes them; the others it always can.
PILLOW = {"jpeg": "jpg", "png": "zlib", "gif": None, "bmp": None, "tiff": "libtiff", "webp": "webp", "avif": "avif"}
#: Of each kind of file, what reads it and what most of its videos are coded in.
VIDEOS = {
    "mov": ("mov", ("h264", "hevc")),
    "matroska": ("matroska", ("h264", "hevc", "vp9")),
    "webm": ("matroska", ("vp8", "vp9")),
    "avi": ("avi", ("mpeg4", "mjpeg")),
    "mpeg": ("mpeg", ("mpeg1video", "mpeg2video")),
    "asf": ("asf", ("wmv1", "wmv2", "wmv3")),
}


def images() -> Iterator[str]:
    try:
        from PIL import features
    except ImportError:
        return
    for kind, part in PILLOW.items():
        if part is None or features.check(part):
            yield kind
    try:
        import pillow_heif
    except ImportError:
        return
    if pillow_heif.libheif_info()["decoders"]:
        yield "heif"


def videos() -> Iterator[str]:
    try:
        import av
        from av.codec.codec import UnknownCodecError
    except ImportError:
        return
    readers = {word for name in av.formats_available for word in name.split(",")}
    for kind, (reader, codecs) in VIDEOS.items():
        try:
            if reader in readers and all(av.Codec(codec, "r") for codec in codecs):
                yield kind
        except UnknownCodecError:
            continue


if __name__ == "__main__":
    for found in (images, videos):
        for word in found():
            print(word, flush=True)
