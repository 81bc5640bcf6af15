"""A progress line for files being written, on terminals only."""

from __future__ import annotations

import sys
from typing import Any


class FileProgress:
    """Shows files and bytes, if it is `shown` and standard error is a terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._files = self._bytes = 0
        self._bar: Any = None
        if shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("writing MDS shards")
            self._bar.start()

    def add(self, size: int) -> None:
        """Count a file of `size` bytes."""
        self._files += 1
        self._bytes += size
        self.show(self._files, self._bytes)

    def show(self, files: int, size: int) -> None:
        """Show so many files of `size` bytes together."""
        if self._bar is not None:
            text = f"writing MDS shards: {files}, {size / 1e6:,.0f} MB"
            self._bar.update(self._task, description=text)

    def close(self) -> None:
        """Remove the line."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
