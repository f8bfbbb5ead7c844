"""Small pictures of pictures, by Pillow.

What the file says decides, not its name. Only the one plugin that its first bytes call for is loaded and tried: Pillow
would else offer a hostile file to all of its forty.
"""

from __future__ import annotations

import io
import warnings
from importlib import import_module
from typing import NamedTuple

from PIL import Image, ImageFile, UnidentifiedImageError

from thumbnails import colours
from thumbnails.render_errors import DECODE_FAILED, GENERATION_FAILED, TOO_LARGE, RenderError, told_by
from thumbnails.source import Source

#: As many bytes tell one kind from the other; the brands of an ISO file are in its first box.
HEAD_BYTES = 64
PLUGINS = {
    "JPEG": "PIL.JpegImagePlugin",
    "PNG": "PIL.PngImagePlugin",
    "GIF": "PIL.GifImagePlugin",
    "WEBP": "PIL.WebPImagePlugin",
    "BMP": "PIL.BmpImagePlugin",
    "TIFF": "PIL.TiffImagePlugin",
    "AVIF": "PIL.AvifImagePlugin",
    "HEIF": "pillow_heif",
}
HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1")
#: What is decoded before it is scaled is reduced to at least so many times the size wanted, and then resampled.
REDUCING_GAP = 2.0
#: The same of a JPEG, which is decoded at an eighth, a quarter or a half: its own scaling is a good one.
DRAFT_GAP = 1.0
#: How they are written.
WEBP = {"quality": 80, "method": 4}
JPEG = {"quality": 82}
#: Neither a black nor a white drawing on a transparent ground vanishes on it.
GROUND = (192, 192, 192)
#: What the picture is turned by so that it stands upright, by the value of its EXIF tag.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
ORIENTATION_TAG = 0x0112
#: Where the boxes of a HEIF file that turn it stand, far before its pixels.
TURNS_WITHIN = 64 << 10
#: A damaged picture that is of one shade to this part shows nothing.
NOTHING_LEFT = 0.99

# Our own limit is asked before anything is decoded, and says what to do.
Image.MAX_IMAGE_PIXELS = None
# What Pillow warns of is either seen in the picture or ends as an error.
warnings.filterwarnings("ignore", module="PIL")


class Picture(NamedTuple):
    data: bytes
    width: int
    height: int


def render(source: Source, *, format: str, max_dimension: int, most_pixels: int) -> Picture:
    """The first frame of a picture, upright, in sRGB, no larger than it is and than `max_dimension` both ways.

    A JPEG that is cut off or damaged is shown as far as it goes, the rest in grey, as every viewer does: half a holiday
    picture is still known by its half. Where next to nothing is left of it, and for every other kind, it is an error.
    """
    return encoded(_small(source, max_dimension, most_pixels), format)


def kind_of(head: bytes) -> str | None:
    """Which plugin the first bytes call for."""
    for start, kind in (
        (b"\xff\xd8\xff", "JPEG"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"GIF87a", "GIF"), (b"GIF89a", "GIF"),
        (b"BM", "BMP"), (b"II*\0", "TIFF"), (b"MM\0*", "TIFF"), (b"II+\0", "TIFF"), (b"MM\0+", "TIFF"),
    ):  # fmt: skip
        if head.startswith(start):
            return kind
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WEBP"
    if head[4:8] == b"ftyp":
        box = head[8 : min(int.from_bytes(head[:4], "big"), HEAD_BYTES)]
        # A general brand may stand first; what kind it is then stands among the compatible ones.
        if b"avif" in box or b"avis" in box:
            return "AVIF"
        return "HEIF" if any(brand in box for brand in HEIF_BRANDS) else None
    return None


def _small(source: Source, max_dimension: int, most_pixels: int) -> Image.Image:
    try:
        kind = _kind(source)
        try:
            return _upright_and_scaled(_opened(source, kind, most_pixels), source, max_dimension)
        except (OSError, SyntaxError):
            if kind != "JPEG" or source.trouble:
                raise
        return _what_is_left(source, max_dimension, most_pixels)
    except (RenderError, MemoryError):
        raise
    except Exception as error:  # a plugin that is fed nonsense may raise anything
        if source.too_large:
            raise source.too_large from None
        if source.trouble:
            raise RenderError(GENERATION_FAILED, source.explain()) from None
        raise RenderError(DECODE_FAILED, f"The picture is damaged: {told_by(error)}.") from None


def check_pixels(width: int, height: int, most_pixels: int) -> None:
    if width * height > most_pixels:
        said = f"It is said to be {width:,} by {height:,} pixels large; here {most_pixels / 1e6:g} million are decoded."
        raise RenderError(TOO_LARGE, said)


def _kind(source: Source) -> str:
    if source.size == 0:
        raise RenderError(DECODE_FAILED, "The file is empty.")
    kind = kind_of(source.head(HEAD_BYTES))
    if kind is None:
        raise RenderError(DECODE_FAILED, "What the file holds is not a picture of a kind that is known here.")
    return kind


def _opened(source: Source, kind: str, most_pixels: int) -> Image.Image:
    plugin = import_module(PLUGINS[kind])
    if kind == "HEIF":
        # An embedded thumbnail would be quicker, but need not show what the picture shows.
        plugin.register_heif_opener(thumbnails=False, decode_threads=1)
    if kind == "AVIF":
        # Two pictures at a time take all cores there are; more threads would only take more memory.
        plugin.DEFAULT_MAX_THREADS = 1  # type: ignore[attr-defined]
    source.seek(0)
    try:
        image = Image.open(source.buffered(), formats=(kind,))
    except UnidentifiedImageError:
        raise RenderError(DECODE_FAILED, f"It begins as {kind}, but its header can't be understood.") from None
    check_pixels(*image.size, most_pixels)
    return image


def _what_is_left(source: Source, max_dimension: int, most_pixels: int) -> Image.Image:
    """A damaged JPEG once more, as far as it goes."""
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        image = _upright_and_scaled(_opened(source, "JPEG", most_pixels), source, max_dimension)
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = False
    if max(image.convert("L").histogram()) > NOTHING_LEFT * image.width * image.height:
        raise RenderError(DECODE_FAILED, "The file is cut off or damaged, and next to nothing is left of the picture.")
    return image


def _upright_and_scaled(image: Image.Image, source: Source, max_dimension: int) -> Image.Image:
    size = fitted(image.size, max_dimension)
    gap, box = REDUCING_GAP, None
    drafted = image.draft(None, (int(size[0] * DRAFT_GAP), int(size[1] * DRAFT_GAP)))
    if drafted is not None:
        gap, box = DRAFT_GAP, drafted[1]
    image.load()
    orientation = _orientation(image, source)
    if drafted is None:
        size = fitted(image.size, max_dimension)  # a TIFF turns itself while it is loaded
    profile = image.info.get("icc_profile")
    image = colours.resizable(image)
    if image.size != size:
        image = image.resize(size, Image.Resampling.BICUBIC, box=box, reducing_gap=gap)
    if orientation in UPRIGHT:
        image = image.transpose(UPRIGHT[orientation])
    return colours.to_srgb(image, profile)


def fitted(size: tuple[int, int], max_dimension: int) -> tuple[int, int]:
    """The size with the same sides' ratio that fits, and is no larger."""
    scale = min(1.0, max_dimension / max(*size, 1))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _orientation(image: Image.Image, source: Source) -> int:
    """How it is to be turned still. A HEIF file is turned while it is loaded where it says so itself; what the camera
    noted besides then means the same turn, and holds only where there is no other."""
    if image.format == "HEIF":
        start = source.head(TURNS_WITHIN)
        noted = image.info.get("original_orientation") if not any(box in start for box in (b"irot", b"imir")) else 1
        return noted or 1
    try:
        found = image.getexif().get(ORIENTATION_TAG, 1)
    except Exception:  # whatever is wrong with what a camera noted, the picture is there
        return 1
    return found if isinstance(found, int) else 1


def encoded(image: Image.Image, format: str) -> Picture:
    """In RGB or RGBA, as WebP or JPEG, without anything else that the file told: no place, no camera, no comment."""
    if image.mode == "RGBA" and format == "jpeg":
        ground = Image.new("RGB", image.size, GROUND)
        ground.paste(image, mask=image.getchannel("A"))
        image = ground
    image.info = {}
    out = io.BytesIO()
    image.save(out, format.upper(), **(WEBP if format == "webp" else JPEG))
    return Picture(out.getvalue(), *image.size)
