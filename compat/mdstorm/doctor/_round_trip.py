"""Write a small DataFrame, read it back in ranks, compare it by value, and delete it."""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
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

_CHECK = "round-trip"
_LIBRARIES = ("torch", "tensorflow")
#: Seconds for the ranks of one library.
_PATIENCE = 300


def make_round_trip(url: str, *, session: SparkSession | None, ranks: int) -> Iterator[Finding]:
    """Yield what happened to the rows on their way.

    What was written is removed at the end, whatever happens.
    """
    with _own_session(session) as spark, _own_directory(url) as directory:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                converter = make_spark_converter(
                    sample_frame(spark), parent_cache_dir_url=directory.url, dtype=None
                )
        except Exception as error:  # each kind of session has errors of its own
            yield of_error(_CHECK, error)
            return
        written = str(converter.cache_dir_url)
        where = f"{len(converter.file_urls)} shards below {normalize_url(url)}"
        yield Finding(_CHECK, "ok", f"Spark wrote {len(converter)} rows in {where}")
        yield _read_in_arrow(written)
        for library in _LIBRARIES:
            if installed(library) is not None:
                yield _read_in_ranks(library, written, ranks)
        converter.delete()
    yield Finding(_CHECK, "ok", "what was written is deleted")


@contextmanager
def _own_session(session: SparkSession | None) -> Iterator[SparkSession]:
    """Yield the session, or one that is started and stopped."""
    if session is not None:
        yield session
        return
    started = start_session()
    with suppress(Exception):  # a session of Spark Connect has no context
        started.sparkContext.setLogLevel("ERROR")
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def _own_directory(url: str) -> Iterator[Location]:
    """Yield a new directory below a URL, which is removed with all that is in it."""
    directory = Location.of(normalize_url(url)).child(f"mdstorm-doctor-{secrets.token_hex(8)}")
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
    return _judged(f"Arrow, {len(COLUMNS) + 1} types", [{"ids": ids, "wrong": wrong}])


def _read_in_ranks(library: str, url: str, ranks: int) -> Finding:
    """Let processes read their shares, each resumed once in the middle."""
    processes = [_started(library, url, rank, ranks) for rank in range(ranks)]
    try:
        shares = []
        for process in processes:
            out, err = process.communicate(timeout=_PATIENCE)
            if process.returncode:
                last = "".join(err.strip().splitlines()[-1:])
                return Finding(
                    _CHECK,
                    "problem",
                    f"{library}: a rank failed: {last}",
                    f'see whether `python -c "import {library}"` works here',
                )
            shares.append(json.loads(out.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return Finding(
            _CHECK,
            "problem",
            f"{library}: a rank had not read its share after {_PATIENCE} s",
            "measure how fast this host reads from the directory",
        )
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    how = f"{ranks} ranks" if ranks > 1 else "1 rank"
    devices = ", ".join(sorted({share["device"] for share in shares}))
    return _judged(f"{library} on {devices}, {how}, resumed once", shares)


def _started(library: str, url: str, rank: int, ranks: int) -> subprocess.Popen[str]:
    world = {
        "RANK": rank,
        "WORLD_SIZE": ranks,
        "LOCAL_RANK": rank,
        "LOCAL_WORLD_SIZE": ranks,
        "TF_CPP_MIN_LOG_LEVEL": 3,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "mdstorm.doctor._rank", library, url],
        env={**os.environ, **{name: str(value) for name, value in world.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _judged(how: str, shares: list[dict[str, Any]]) -> Finding:
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
            _CHECK,
            "problem",
            f"{how}: {len(lost)} rows lost, {len(repeated)} repeated, wrong values: {columns}",
            "report it with the output of `mdstorm doctor --format json`",
        )
    return Finding(_CHECK, "ok", f"{how}: all {ROWS} rows, each once, with the right values")
