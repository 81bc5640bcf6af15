"""How many files a writer has written."""

from __future__ import annotations

from mdstorm_backend.display.drawn import Drawn
from mdstorm_backend.display.live_line import open_line
from mdstorm_backend.display.quantities import counted, human_bytes


class FileProgress:
    """Shows files and bytes, if it is `shown` and somebody looks."""

    def __init__(self, *, shown: bool) -> None:
        self._files = self._bytes = 0
        line = open_line() if shown else None
        self._drawn = None if line is None else Drawn(line, "Writing MDS shards")

    def add(self, size: int) -> None:
        """Count a file of `size` bytes."""
        self._files += 1
        self._bytes += size
        if self._drawn is not None:
            self._drawn.draw(self._text)

    @property
    def _text(self) -> str:
        return f"{counted(self._files, 'file')}, {human_bytes(self._bytes)}"

    def close(self) -> None:
        """End the line."""
        if self._drawn is not None:
            self._drawn.close(self._text)
