"""Show a progress line on terminals during long writes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mdstorm_backend.format.shard_names import parse_shard_name
from mdstorm_backend.spark.session import read_conf
from mdstorm_backend.storage import Location
from mdstorm_backend.write.progress import FileProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERVAL_SECONDS = 1.0


@contextmanager
def write_progress(session: SparkSession, location: Location) -> Iterator[None]:
    """Show shards and bytes written so far while the block runs.

    It watches the directory, which works on every kind of session. Nothing is shown if standard
    error is not a terminal, or if Spark draws a progress bar of its own.
    """
    own_bar = read_conf(session, "spark.ui.showConsoleProgress") == "true"
    if own_bar or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    progress = FileProgress(shown=True)
    thread = threading.Thread(target=_watch, args=(location, done, progress), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        progress.close()


def _watch(location: Location, done: threading.Event, progress: FileProgress) -> None:
    while not done.wait(_INTERVAL_SECONDS):
        sizes = [size for name, size in location.list_sizes() if parse_shard_name(name)]
        progress.show(len(sizes), sum(sizes))
