"""Thumbnails that are there, or failed, by the same steps as an executor takes; only the picture itself is painted."""

from __future__ import annotations

import io

from PIL import Image

from jobs.lease import Lease
from libraries.models import LibraryFile
from thumbnails import admitting, store
from thumbnails.models import Thumbnail


def picture(size: tuple[int, int] = (320, 240), format: str = "webp", colour: int = 0) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, (colour % 256, 140, 90)).save(data, format)
    return data.getvalue()


def made(file: LibraryFile, dimension: int = 320, format: str = "webp") -> Thumbnail:
    """A thumbnail that is ready, with its picture on the disk."""
    row, lease = _claimed(file, dimension, format)
    size = (dimension, dimension * 3 // 4)
    data = picture(size, format, file.pk * 40)
    store.save(row.output_relpath or "", data)
    lease.finish("ready", error_count=0, retry_after=None, width=size[0], height=size[1], bytes_size=len(data))
    row.refresh_from_db()
    return row


def failed(file: LibraryFile, code: str = "THUMB_DECODE_FAILED", dimension: int = 320) -> Thumbnail:
    row, lease = _claimed(file, dimension, "webp")
    lease.finish("failed", code=code, message="broken", error_count=1, retry_after="2100-01-01 00:00:00+00:00")
    row.refresh_from_db()
    return row


def _claimed(file: LibraryFile, dimension: int, format: str) -> tuple[Thumbnail, Lease[Thumbnail]]:
    groups = {file.pk: f"{file.hash_algorithm}:{bytes(file.content_hash).hex()}"} if file.content_hash else {}
    asked = admitting.request([file], group_keys=groups, max_dimension=dimension, format=format)
    rows = Thumbnail.objects.filter(thumb_key=asked[file.pk].key)
    lease = rows.claim("factory")
    assert lease is not None
    return rows.get(), lease
