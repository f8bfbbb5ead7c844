"""One line on a terminal that tells how far a scan is."""

from __future__ import annotations

from typing import Any

from libraries.models import ScanRequest

WIDTH = 28


class Line:
    """Rewrites itself; on anything that is no terminal it stays silent."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.is_terminal = bool(getattr(stream, "isatty", lambda: False)())

    def show(self, request: ScanRequest) -> None:
        if self.is_terminal:
            self.stream.write(f"\r\x1b[K{describe(request)}", ending="")
            self.stream.flush()

    def clear(self) -> None:
        if self.is_terminal:
            self.stream.write("\r\x1b[K", ending="")


def describe(request: ScanRequest) -> str:
    if request.status == "pending":
        return "waiting for its turn"
    seen, total = request.scanned_paths, request.total_paths
    share = min(seen / total, 1.0) if total else 0.0
    bar = "█" * int(share * WIDTH)
    return f"[{bar:<{WIDTH}}] {share:4.0%}  {seen:,} files"
