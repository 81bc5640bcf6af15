"""Write a small DataFrame, read it back in ranks, compare it by value, and delete it."""

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

from mdstorm.doctor._findings import Finding, of_error
from mdstorm.doctor._libraries import installed
from mdstorm.doctor._sample_rows import COLUMNS, ROWS, sample_frame, wrong_values
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset
from mdstorm_backend.spark import start_session
from mdstorm_backend.storage import Location, normalize_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECK = "round-trip"
_LIBRARIES = ("torch", "tensorflow")
#: Seconds for the ranks of one library.
_PATIENCE = 300


def make_round_trip(url: str, *, session: SparkSession | None, ranks: int) -> Iterator[Finding]:
    """Yield what happened to the rows on their way.

    What was written is removed at the end, whatever happens.
    """
    with _own_session(session) as spark, own_directory(url) as directory:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                converter = make_spark_converter(
                    sample_frame(spark), parent_cache_dir_url=directory.url, dtype=None
                )
        except Exception as error:  # each kind of session has errors of its own
            yield of_error(CHECK, error)
            return
        written = str(converter.cache_dir_url)
        where = f"{len(converter.file_urls)} shards below {normalize_url(url)}"
        yield Finding(CHECK, "ok", f"Spark wrote {len(converter)} rows in {where}")
        yield _read_in_arrow(written)
        for library in libraries():
            yield _read_in_ranks(library, written, ranks)
        converter.delete()
    yield Finding(CHECK, "ok", "what was written is deleted")


@contextmanager
def _own_session(session: SparkSession | None) -> Iterator[SparkSession]:
    """Yield the session, or one that is started and stopped."""
    if session is not None:
        yield session
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
def own_directory(url: str, name: str = "") -> Iterator[Location]:
    """Yield a directory below a URL, which is removed at the end with all that is in it."""
    name = name or f"mdstorm-doctor-{secrets.token_hex(8)}"
    directory = Location.of(normalize_url(url)).child(name)
    missing = _missing_ancestors(directory)
    logger = logging.getLogger("mdstorm")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield directory
    finally:
        logger.setLevel(level)
        for name in directory.list_names():
            directory.remove(name)
        directory.remove_directory_if_empty()
        for path in missing:
            with suppress(OSError):
                os.rmdir(path)


def _missing_ancestors(directory: Location) -> list[str]:
    """Return the paths above a directory that are not there, the nearest first."""
    found = []
    path = directory.path if directory.is_in_file_tree else ""
    while path and not os.path.exists(path):
        found.append(path)
        path = os.path.dirname(path)
    return found


def _read_in_arrow(url: str) -> Finding:
    """Compare all rows and columns, as they are read without another library."""
    table = open_dataset(url).to_table()
    ids = table["id"].to_pylist()
    found = {name: table[name].to_pylist() for name in COLUMNS}
    wrong = wrong_values(ids, found, dict.fromkeys(COLUMNS, lambda value: value))
    return judged(f"Arrow, {len(COLUMNS) + 1} types", [{"ids": ids, "wrong": wrong}])


def libraries() -> list[str]:
    """Return the libraries that rows are read in: those that are installed."""
    return [one for one in _LIBRARIES if installed(one) is not None]


def _read_in_ranks(library: str, url: str, ranks: int) -> Finding:
    """Let processes of this host read their shares, each resumed once in the middle."""
    world = [
        {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
        for rank in range(ranks)
    ]
    try:
        shares = shares_of([started(library, url, variables) for variables in world])
    except RankError as error:
        return of_error(CHECK, error)
    how = f"{ranks} ranks" if ranks > 1 else "1 rank"
    devices = ", ".join(sorted({share["device"] for share in shares}))
    return judged(f"{library} on {devices}, {how}, resumed once", shares)


class RankError(RuntimeError):
    """A process that reads a share has failed."""


def started(library: str, url: str, world: Mapping[str, object]) -> subprocess.Popen[str]:
    """Start a process that reads the share of a rank, by these variables and those of this one."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": 3, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    variables = {name: str(value) for name, value in {**quiet, **world}.items()}
    return subprocess.Popen(
        [sys.executable, "-m", "mdstorm.doctor._rank", library, url],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shares_of(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Wait for processes, and return what they have read.

    Raises
    ------
    RankError
        If one fails, or takes too long. None of them runs any more then.
    """
    try:
        found = [process.communicate(timeout=_PATIENCE) for process in processes]
    except subprocess.TimeoutExpired:
        raise RankError(
            f"a rank had not read its share after {_PATIENCE} s. Measure how fast this host reads "
            "from the directory"
        ) from None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, err) in zip(processes, found, strict=True):
        if process.returncode:
            library = process.args[3] if isinstance(process.args, list) else ""
            last = "".join(err.strip().splitlines()[-1:])
            raise RankError(
                f"{library} failed in a rank: {last}. See whether `import {library}` works here"
            )
    return [json.loads(out.splitlines()[-1]) for out, _ in found]


def judged(how: str, shares: list[dict[str, Any]]) -> Finding:
    """Count the rows of all shares by number, and what is wrong in them."""
    counts = Counter(row for share in shares for row in share["ids"])
    lost = [row for row in range(ROWS) if row not in counts]
    repeated = [row for row, count in counts.items() if count > 1]
    wrong: Counter[str] = Counter()
    for share in shares:
        wrong.update(share["wrong"])
    if lost or repeated or wrong:
        columns = ", ".join(f"{name} ({count})" for name, count in wrong.items()) or "none"
        return Finding(
            CHECK,
            "problem",
            f"{how}: {len(lost)} rows lost, {len(repeated)} repeated, wrong values: {columns}",
            "report it with the output of `mdstorm doctor --format json`",
        )
    return Finding(CHECK, "ok", f"{how}: all {ROWS} rows, each once, with the right values")
