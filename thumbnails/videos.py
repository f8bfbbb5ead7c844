"""Small pictures of videos, by PyAV: one frame that shows something, found with few looks into the file."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import av.error
import av.logging
from PIL import Image, ImageStat

from thumbnails.images import Picture, check_pixels, encoded, fitted
from thumbnails.render_errors import GENERATION_FAILED, VIDEO_FAILED, RenderError, told_by
from thumbnails.source import BUFFER_BYTES, Source

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

#: Kinds of files that hold a video themselves. Others are lists of further files or addresses, which nobody may have
#: opened by a file that lies in a library.
CONTAINERS = "mov,mp4,matroska,webm,avi,mpeg,mpegts,mpegvideo,m4v,asf,h264,hevc,flv,ogg"
OPTIONS = {
    "format_whitelist": CONTAINERS,
    "protocol_whitelist": "none",
    # How much is looked at to learn what the file holds.
    "probesize": str(4 << 20),
    "analyzeduration": str(3_000_000),
}
#: Where a frame is looked for, as parts of the length. Films begin and end in black.
PLACES = (0.1, 0.3, 0.5, 0.75, 0.0)
#: So many packets are taken from one place, or read on from the beginning, until a frame shows something.
MOST_PACKETS, MOST_PACKETS_ON = 120, 600
#: Past these, the best frame so far is taken. A reader that looks for the next frame in a damaged file reads up to
#: twice as much.
MOST_BYTES, MOST_SHARE_OF_TIME = 96 << 20, 0.5
#: Of the frames one after the other, so many are all looked at, and then one in so many.
EACH_OF_FIRST, ONE_IN = 24, 6
#: A frame this bright and this varied, of 255, shows something.
BRIGHT, VARIED = 16.0, 10.0
#: The size at which a frame is judged.
JUDGED = 64
#: How the picture is turned, by the signs of the matrix that maps it onto the screen.
UPRIGHT = {
    (-1, 0, 0, 1): Image.Transpose.FLIP_LEFT_RIGHT,
    (-1, 0, 0, -1): Image.Transpose.ROTATE_180,
    (1, 0, 0, -1): Image.Transpose.FLIP_TOP_BOTTOM,
    (0, 1, 1, 0): Image.Transpose.TRANSPOSE,
    (0, 1, -1, 0): Image.Transpose.ROTATE_270,
    (0, -1, -1, 0): Image.Transpose.TRANSVERSE,
    (0, -1, 1, 0): Image.Transpose.ROTATE_90,
}

av.logging.set_level(None)


def render(source: Source, *, format: str, max_dimension: int, most_pixels: int, seconds: float) -> Picture:
    """A frame that is not black where there is one, upright and in the shape in which it is played."""
    if source.size == 0:
        raise RenderError(VIDEO_FAILED, "The file is empty.")
    source.most_bytes = 2 * MOST_BYTES
    try:
        with av.open(source, "r", options=OPTIONS, buffer_size=BUFFER_BYTES, metadata_errors="ignore") as container:
            image = _Looking(source, container, most_pixels, seconds * MOST_SHARE_OF_TIME).picture(max_dimension)
    except (RenderError, MemoryError):
        raise
    except Exception as error:  # a decoder that is fed nonsense may raise anything
        if source.trouble:
            raise RenderError(GENERATION_FAILED, source.explain()) from None
        raise RenderError(VIDEO_FAILED, f"The video can't be decoded: {_reason(error)}.") from None
    return encoded(image, format)


def _reason(error: Exception) -> str:
    if isinstance(error, av.error.FFmpegError) and error.strerror:
        return error.strerror
    return told_by(error)


class _Looking:
    """The search for a frame in one video."""

    def __init__(self, source: Source, container: InputContainer, most_pixels: int, seconds: float) -> None:
        self.source, self.container, self.most_pixels = source, container, most_pixels
        self.until = time.monotonic() + seconds
        self.stream = _stream_of(container)
        check_pixels(self.stream.codec_context.width, self.stream.codec_context.height, most_pixels)
        # What the header says may not be what the frames are.
        self.stream.codec_context.options = {"max_pixels": str(most_pixels)}
        self.stream.codec_context.thread_count = 1
        self.best: tuple[float, VideoFrame] | None = None
        self.seen: set[int | None] = set()
        self.trouble: Exception | None = None

    def picture(self, max_dimension: int) -> Image.Image:
        frame = self._first_good()
        check_pixels(frame.width, frame.height, self.most_pixels)
        shape = _shown_size(frame, self.stream.sample_aspect_ratio)
        width, height = fitted(shape, max_dimension)
        image = _image_of(frame, width, height, "rgb24")
        turn = UPRIGHT.get(_signs(frame))
        return image if turn is None else image.transpose(turn)

    def _first_good(self) -> VideoFrame:
        for frame in self._frames():
            score = _score(frame)
            if self.best is None or score > self.best[0]:
                self.best = score, frame
            if score >= VARIED or self._is_enough():
                break
        if self.best is None:
            if self.trouble is not None:
                raise self.trouble
            raise RenderError(VIDEO_FAILED, "The video holds no frame that can be shown.")
        return self.best[1]

    def _is_enough(self) -> bool:
        """A first frame is worth all the time there is, a better one only a part of it."""
        return self.source.bytes_read > MOST_BYTES or (self.best is not None and time.monotonic() > self.until)

    def _frames(self) -> Iterator[VideoFrame]:
        """Key frames from here and there, and then, where none is good, every frame from the beginning."""
        for place in self._places():
            if self._is_enough():
                return
            if self._seek(place):
                yield from self._key_frame()
        if self._seek(self._places()[-1]):
            yield from self._decoded()

    def _places(self) -> list[int]:
        """In the stream's own time; without a known length, only the beginning."""
        base = self.stream.time_base
        if not base:
            return [0]
        start = self.stream.start_time or 0
        length = self.stream.duration or (
            int(Fraction(self.container.duration, av.time_base) / base) if self.container.duration else 0
        )
        return [start + int(length * place) for place in PLACES] if length > 0 else [start]

    def _seek(self, place: int) -> bool:
        """Whether the reading stands at a key frame before that place; a fresh file stands at its beginning."""
        try:
            self.container.seek(place, stream=self.stream)
        except (av.error.FFmpegError, OverflowError):
            return not self.seen
        return True

    def _key_frame(self) -> Iterator[VideoFrame]:
        """The next one, by itself: the decoder is told that nothing follows, and forgets that it was told."""
        context = self.stream.codec_context
        for packet in self._packets(MOST_PACKETS):
            if packet.is_keyframe and packet.pts not in self.seen:
                self.seen.add(packet.pts)
                with suppress(av.error.InvalidDataError, av.error.EOFError):
                    yield from [*context.decode(packet), *context.decode(None)][:1]
                context.flush_buffers()
            if packet.is_keyframe:
                return

    def _decoded(self) -> Iterator[VideoFrame]:
        """Frames from here on, with the last of those that were not looked at; a damaged packet is passed over."""
        passed: list[VideoFrame] = []
        for number, packet in enumerate(self._packets(MOST_PACKETS_ON)):
            with suppress(av.error.InvalidDataError):
                passed = self.stream.codec_context.decode(packet) or passed
                if number < EACH_OF_FIRST or number % ONE_IN == 0:
                    yield from passed
                    passed = []
        yield from passed[-1:]
        with suppress(av.error.InvalidDataError, av.error.EOFError):
            yield from self.stream.codec_context.decode(None)

    def _packets(self, most: int) -> Iterator[Packet[VideoStream]]:
        try:
            for number, packet in enumerate(self.container.demux(self.stream)):
                if packet.size:
                    yield packet
                if number >= most or self._is_enough():
                    return
        except MemoryError:
            raise
        except av.error.FFmpegError as error:  # cut off or damaged: what was found before it may do
            self.trouble = error


def _stream_of(container: InputContainer) -> VideoStream:
    """The video; a cover picture among its streams is none."""
    moving = [
        stream
        for stream in container.streams.video
        if not stream.disposition & av.stream.Disposition.attached_pic and stream.codec_context is not None
    ]
    if not moving:
        raise RenderError(VIDEO_FAILED, "The file holds no video that can be decoded here.")
    best: Any = container.streams.best("video")
    return best if best in moving else moving[0]


def _image_of(frame: VideoFrame, width: int, height: int, format: str) -> Image.Image:
    scaled: Any = frame.reformat(width, height, format, interpolation="AREA", threads=1)
    image: Image.Image = scaled.to_image()
    return image


def _score(frame: VideoFrame) -> float:
    """How varied a frame is; nothing where it is too dark to see."""
    found = ImageStat.Stat(_image_of(frame, JUDGED, JUDGED, "gray"))
    return found.stddev[0] if found.mean[0] >= BRIGHT else 0.0


def _shown_size(frame: VideoFrame, ratio: Fraction | None) -> tuple[int, int]:
    """The size with square pixels; a ratio out of reason is passed over."""
    if not ratio or not Fraction(1, 16) <= ratio <= 16:
        return frame.width, frame.height
    if ratio > 1:
        return frame.width, max(1, round(frame.height / ratio))
    return max(1, round(frame.width * ratio)), frame.height


def _signs(frame: VideoFrame) -> tuple[int, int, int, int]:
    """Which way the axes of the frame go on the screen, as the container says."""
    matrix: Any = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 1, 0, 0, 1
    a, b, _, c, d = struct.unpack_from("=5i", bytes(matrix))
    largest = max(map(abs, (a, b, c, d)))
    one, two, three, four = (0 if abs(each) * 2 < largest else (each > 0) - (each < 0) for each in (a, b, c, d))
    return one, two, three, four
