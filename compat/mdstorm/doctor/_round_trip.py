"""Write a small DataFrame, read it back, compare it by value, and delete it."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mdstorm.doctor._libraries import installed
from mdstorm.doctor._machine import said_by
from mdstorm.doctor._report import Finding, Setup, of_error, ok, problem
from mdstorm.doctor._sample_rows import COLUMNS, ROWS, sample_frame, wrong_values
from mdstorm.doctor._storage import no_new_directories
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.spark import start_session
from mdstorm_backend.storage import Location, normalize_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds for reading in one library.
_PATIENCE = 300


def round_trip(setup: Setup) -> Iterator[Finding]:
    """Let Spark write the rows, and a process for each library read them."""
    with _session(setup.session) as spark, _own_directory(setup.url) as directory:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                converter = make_spark_converter(
                    sample_frame(spark), parent_cache_dir_url=directory.url, dtype=None
                )
        except Exception as error:  # each kind of session has errors of its own
            yield of_error(error)
            return
        where = f"{len(converter.file_urls)} shards below {normalize_url(setup.url)}"
        yield ok(f"Spark wrote {len(converter)} rows in {where}")
        written = str(converter.cache_dir_url)
        table = open_dataset(written).to_table().to_pydict()
        ids = table.pop("id")
        arrow = {"ids": ids, "wrong": wrong_values(ids, table, "in_arrow")}
        yield judged(f"Arrow, {len(COLUMNS) + 1} types", arrow)
        for library in filter(installed, ("torch", "tensorflow")):
            found = _read_in(library, written)
            yield judged(f"{library} on {found['device']}", found)
        converter.delete()
    yield ok("what was written is deleted")


def _read_in(library: str, url: str) -> dict[str, Any]:
    """Let a process read the rows in a library.

    Raises
    ------
    MDStormError
        If it fails, or takes too long.
    """
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    command = (sys.executable, "-m", "mdstorm.doctor._sample_rows", library, url)
    try:
        said = said_by(*command, env={**os.environ, **quiet}, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise MDStormError(
            f"{library} had not read the rows after {_PATIENCE} s. Measure how fast this host "
            "reads from the directory"
        ) from None
    except OSError as error:
        raise MDStormError(
            f"{library} failed: {error}. See whether `import {library}` works here"
        ) from None
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def judged(how: str, found: Mapping[str, Any]) -> Finding:
    """Count the rows that were read by number, and what is wrong in them."""
    counts = Counter(found["ids"])
    lost = [row for row in range(ROWS) if row not in counts]
    repeated = [row for row, count in counts.items() if count > 1]
    if not lost and not repeated and not found["wrong"]:
        return ok(f"{how}: all {ROWS} rows, each once, with the right values")
    columns = ", ".join(f"{name} ({count})" for name, count in found["wrong"].items()) or "none"
    return problem(
        f"{how}: {len(lost)} rows lost, {len(repeated)} repeated, wrong values: {columns}",
        "report it with the output of `mdstorm doctor --format json`",
    )


@contextmanager
def _session(given: SparkSession | None) -> Iterator[SparkSession]:
    """Yield the session, or one that is started and stopped."""
    if given is not None:
        yield given
        return
    started = start_session()
    with suppress(Exception):  # a session of Spark Connect has no context
        started.sparkContext.setLogLevel("ERROR")
    with suppress(ValueError):  # a thread has no handler
        # Spark's own cancels jobs over the connection that is in use, and may fail at that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield started
    finally:
        with suppress(Exception):  # that of a broken connection would hide why it ends
            started.stop()


@contextmanager
def _own_directory(url: str) -> Iterator[Location]:
    """Yield a directory below a URL, which is removed at the end with all that is in it."""
    directory = Location.of(normalize_url(url)).child(f"mdstorm-doctor-{secrets.token_hex(8)}")
    logger = logging.getLogger("mdstorm")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with no_new_directories(directory):
        try:
            yield directory
        finally:
            logger.setLevel(level)
            for file in directory.list_names():
                directory.remove(file)
            directory.remove_directory_if_empty()
