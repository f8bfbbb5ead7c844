"""The demo library: a few small files with the cases a duplicate finder is about."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

#: A day in the past: files that are still being written are left alone by plans, and these are not.
MADE_AT = 1_705_312_800


def build(folder: Path) -> None:
    """Fill `folder`, which appears at once and complete; one that is there already is left as it is."""
    if folder.exists():
        return
    draft = folder.with_name(f".{folder.name}-being-made")
    shutil.rmtree(draft, ignore_errors=True)
    for number, (name, content) in enumerate(files()):
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (MADE_AT + number * 3600,) * 2)
    draft.rename(folder)


def take_away(folder: Path) -> list[str]:
    """Delete what `build` made. Where anything else is there, or one of its files was changed, all of it stays and the
    names of those are returned.

    Only files that were compared go, then folders that are empty: what comes meanwhile stays too.
    """
    made, kept, folders = dict(files()), [], []
    for place, below, names in os.walk(folder):
        folders.append(place)
        links = [name for name in below if (Path(place) / name).is_symlink()]
        inside = [Path(place) / name for name in (*names, *links)]
        kept += [str(path.relative_to(folder)) for path in inside if not _is_made(path, folder, made)]
    if kept or folder.is_symlink():
        return kept or [folder.name]
    for name in made:
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        for place in reversed(folders):
            Path(place).rmdir()
    return []


def _is_made(path: Path, folder: Path, made: dict[str, bytes]) -> bool:
    content = made.get(str(path.relative_to(folder)))
    return content is not None and path.is_file() and not path.is_symlink() and path.read_bytes() == content


def files() -> Iterator[tuple[str, bytes]]:
    """Every file by its name. The content is the same on every machine."""
    welcome = _text("Welcome to DedupFS", "This folder was made to try things out. Nothing in it is needed.")
    hills, harbour, dawn = (_picture(seed) for seed in (1, 2, 3))
    left, right = _recordings()
    yield "Notes/welcome.txt", welcome
    yield "Notes/welcome (copy).txt", welcome
    yield "Notes/Grüße aus Köln.txt", _text("Grüße", "Schöne Tage am Fluß, Käse und Brötchen.")
    yield "Notes/empty.txt", b""
    yield "Photos/2023/hills.jpg", hills
    yield "Photos/2023/harbour.jpg", harbour
    yield "Photos/2024/dawn.jpg", dawn
    yield "Backup/Photos/hills.jpg", hills
    yield "Backup/Photos/harbour.jpg", harbour
    yield "Backup/old phone/IMG_0001.jpg", hills
    # Equal size, equal beginning, equal end: only the middle tells them apart.
    yield "Recordings/left.wav", left
    yield "Recordings/right.wav", right
    yield "Backup/Recordings/left.wav", left


def _text(title: str, body: str) -> bytes:
    return f"{title}\n{'=' * len(title)}\n\n{body}\n".encode()


def _recordings() -> tuple[bytes, bytes]:
    noise = random.Random(7)  # noqa: S311  it only has to look like sound
    left = bytearray(noise.randbytes(192 * 1024))
    right = bytearray(left)
    middle = len(right) // 2
    right[middle : middle + 4096] = noise.randbytes(4096)
    return bytes(left), bytes(right)


def _picture(seed: int) -> bytes:
    """A small landscape: sky, sun and three ridges of hills."""
    # Pillow takes a while to load and is needed on one start only.
    from PIL import Image, ImageDraw

    dice = random.Random(seed)  # noqa: S311
    width, height = 640, 426
    low, high = ([dice.randrange(90, 256) for _ in range(3)] for _ in range(2))
    image = Image.new("RGB", (width, height))
    pen = ImageDraw.Draw(image)
    for y in range(height):
        shade = tuple(a + (b - a) * y // height for a, b in zip(high, low, strict=True))
        pen.line([(0, y), (width, y)], fill=shade)
    x, y = dice.randrange(80, width - 80), dice.randrange(60, 160)
    pen.ellipse([x - 34, y - 34, x + 34, y + 34], fill=(255, 236, 170))
    for ridge in range(3):
        pen.polygon(_ridge(dice, width, height, 190 + ridge * 70), fill=(60 - ridge * 12, 96 - ridge * 14, 70))
    target = BytesIO()
    image.save(target, "JPEG", quality=82)
    return target.getvalue()


def _ridge(dice: random.Random, width: int, height: int, top: int) -> list[tuple[int, int]]:
    line = [(x, top + dice.randrange(-26, 27)) for x in range(0, width + 81, 80)]
    return [(0, height), *line, (width, height)]
