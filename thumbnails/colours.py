"""From whatever a picture counts its colours in to sRGB, with or without transparency."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from PIL import ImageCms

#: Which pixels a colour profile is for.
MODES = {"RGB": "RGB", "CMYK": "CMYK", "GRAY": "L", "Lab": "LAB"}


def resizable(image: Image.Image) -> Image.Image:
    """In a mode whose pixels can be mixed: a palette's numbers can't, and 16 bits are more than is shown."""
    if image.has_transparency_data:
        return image if image.mode == "RGBA" else image.convert("RGBA")
    if image.mode == "P":
        return image.convert("RGB")
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _eight_bits(image)
    return image


def _eight_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits by its range; of 32 bits or fractions, which have none, from the darkest to the brightest."""
    deep = image if image.mode in ("I", "F") else image.convert("I")
    low, high = deep.getextrema()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if image.mode.startswith("I") and low >= 0 and high <= 0xFFFF:
        low, high = 0, 0xFFFF
    elif image.mode == "F" and low >= 0 and high <= 1:
        low, high = 0, 1
    scale = 255 / (high - low) if high > low else 0.0
    return deep.point(lambda value: value * scale - low * scale).convert("L")


def to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """In RGB, or RGBA where anything of it is transparent. A profile that is no good is passed over."""
    alpha = image.getchannel("A") if image.mode in ("RGBA", "LA") else None
    plain = image.convert("RGB") if alpha is not None else image
    if plain.mode in ("L", "RGB", "CMYK", "LAB"):
        transform = _transform(profile, plain.mode) if profile or plain.mode == "LAB" else None
        if transform is not None:
            plain = transform.apply(plain)
    if plain.mode != "RGB":
        plain = plain.convert("RGB")
    if alpha is not None and alpha.getextrema() != (255, 255):
        plain.putalpha(alpha)
    return plain


@lru_cache(maxsize=8)
def _transform(profile: bytes | None, mode: str) -> ImageCms.ImageCmsTransform | None:
    """The way from a profile to sRGB. Pictures of one camera come one after the other, all with the same."""
    from PIL import ImageCms

    try:
        if profile is None:
            source = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
        else:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if MODES.get(source.profile.xcolor_space.strip()) != mode:
            return None
        return ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError, AttributeError):
        return None
