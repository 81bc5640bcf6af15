"""Write a small DataFrame, read it back, compare its values, and delete it.

Spark computes the rows with SQL, and this module computes the expected values from the row ids in
Python, so the comparison does not depend on anything that was stored.

``python -m mdstorm.doctor._round_trip torch URL`` reads the rows and prints JSON.
"""

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mdstorm.doctor._machine import no_new_directories
from mdstorm.doctor._report import Finding, Setup, of_error, ok, problem
from mdstorm.doctor._software import installed, output_of
from mdstorm.spark import make_spark_converter
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.spark import start_session
from mdstorm_backend.storage import Location, normalize_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 997
_PARTITIONS = 3
_FIRST_TIME_US = 1_600_000_000_000_000
#: Timeout in seconds for reading with one library.
_PATIENCE = 300
#: Columns other than ``id``, each with the SQL for its values and a function that maps a row id to
#: the value that both libraries return, with strings decoded.
COLUMNS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "boolean": ("id % 3 = 0", lambda i: i % 3 == 0),
    "integer": ("CAST(id * 1000 - 5 AS INT)", lambda i: i * 1000 - 5),
    "long": ("id * 10000000000 + 7", lambda i: i * 10_000_000_000 + 7),
    "float": ("CAST(id / 4 AS FLOAT)", lambda i: i / 4),
    "double": ("CAST(id / 8 AS DOUBLE)", lambda i: i / 8),
    "decimal": ("CAST(CAST(id AS DECIMAL(12, 2)) / 100 AS DECIMAL(12, 2))", lambda i: i / 100),
    "string": ("concat('é ', CAST(id AS STRING))", lambda i: f"é {i}"),
    "timestamp": (
        f"timestamp_micros({_FIRST_TIME_US} + id * 1000001)",
        lambda i: (_FIRST_TIME_US + i * 1_000_001) * 1000,
    ),
    "floats": (
        "array(CAST(id AS FLOAT), CAST(id + 1 AS FLOAT))",
        lambda i: [float(i), float(i + 1)],
    ),
    "ragged": (
        "slice(array(id, id + 1, id + 2), 1, CAST(id % 4 AS INT))",
        lambda i: [i, i + 1, i + 2][: i % 4],
    ),
    "nested": (
        "array(array(CAST(id AS DOUBLE)), array(CAST(id + 1 AS DOUBLE)))",
        lambda i: [[float(i)], [float(i + 1)]],
    ),
}


def round_trip(setup: Setup) -> Iterator[Finding]:
    """Write the rows with Spark, and read them back in one process per library."""
    values = (
        f"CASE WHEN id % 7 = 3 THEN NULL ELSE {sql} END AS `{name}`"
        for name, (sql, _) in COLUMNS.items()
    )
    with _session(setup.session) as spark, _own_directory(setup.url) as directory:
        try:
            frame = spark.range(0, ROWS, 1, _PARTITIONS).selectExpr("id", *values)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                converter = make_spark_converter(
                    frame, parent_cache_dir_url=directory.url, dtype=None
                )
        except Exception as error:  # each kind of session has its own errors
            yield of_error(error)
            return
        where = f"{len(converter.file_urls)} shards under {normalize_url(setup.url)}"
        yield ok(f"Spark wrote {len(converter)} rows in {where}")
        for library in filter(installed, ("torch", "tensorflow")):
            found = _read_in(library, str(converter.cache_dir_url))
            yield judged(f"{library} on {found['device']}", found)
        converter.delete()
    yield ok("the copy is deleted")


def _read_in(library: str, url: str) -> dict[str, Any]:
    """Read the rows with a library in a new process.

    Raises
    ------
    MDStormError
        If the process fails or takes too long.
    """
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    command = (sys.executable, "-m", "mdstorm.doctor._round_trip", library, url)
    try:
        output = output_of(*command, env={**os.environ, **quiet}, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise MDStormError(
            f"{library} had not read the rows after {_PATIENCE} s. Measure how fast this host "
            "reads from the directory"
        ) from None
    except OSError as error:
        raise MDStormError(
            f"{library} failed: {error}. Check whether `import {library}` works here"
        ) from None
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def judged(how: str, found: Mapping[str, Any]) -> Finding:
    """Return a finding about missing, repeated and wrong rows."""
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
    """Yield the given session, or start one and stop it on exit."""
    if given is not None:
        yield given
        return
    started = start_session()
    with suppress(Exception):  # Spark Connect sessions have no context
        started.sparkContext.setLogLevel("ERROR")
    with suppress(ValueError):  # signal handlers cannot be set outside the main thread
        # Spark's handler cancels jobs over a connection that is already in use, which may fail.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield started
    finally:
        with suppress(Exception):  # a broken connection must not hide the original error
            started.stop()


@contextmanager
def _own_directory(url: str) -> Iterator[Location]:
    """Yield a new directory under a URL, and remove it with its contents on exit."""
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


def is_null(row: int) -> bool:
    """Whether all columns except ``id`` are null in the row with this id."""
    return row % 7 == 3


def wrong_values(ids: Iterable[int], found: Mapping[str, Iterable[Any]]) -> dict[str, int]:
    """Count the wrong values in each column, given the row ids."""
    rows = list(ids)
    wrong = {}
    for name, values in found.items():
        value = COLUMNS[name][1]
        expected = (None if is_null(i) else value(i) for i in rows)
        count = sum(one != other for one, other in zip(values, expected, strict=True))
        if count:
            wrong[name] = count
    return wrong


def _read_rows(library: str, url: str) -> dict[str, Any]:
    """Read all rows with a library and compare their values.

    Returns
    -------
    dict
        The row ``ids`` in the order read, the number of ``wrong`` values by column, and the
        ``device`` of the tensors.
    """
    converter, names = make_spark_converter(url), list(COLUMNS)
    arguments: dict[str, Any] = {
        "batch_size": 64,
        "num_epochs": 1,
        "seed": 7,
        "schema_fields": ["id", *names],
        "shuffling_queue_capacity": 200,
        "null_masks": names,
        "decimals": "float64",
    }
    ids: list[int] = []
    wrong: Counter[str] = Counter()
    device = "cpu"
    if library == "torch":
        import torch

        chosen = "cuda" if torch.cuda.is_available() else None
        batches: Any = converter.make_torch_dataloader(device=chosen, **arguments)
    else:
        rows = converter.make_tf_dataset(**arguments)
        batches = (row._asdict() for row in rows)
    for batch in batches:
        numbers = _plain(batch["id"])
        wrong.update(wrong_values(numbers, {name: _with_nulls(batch, name) for name in names}))
        ids += numbers
        device = str(getattr(batch["id"], "device", device)).rpartition("device:")[2].lower()
    return {"ids": ids, "wrong": wrong, "device": device}


def _with_nulls(batch: Mapping[str, Any], name: str) -> list[Any]:
    """Return a column's values, with None where its null mask is true."""
    masks = _plain(batch[f"{name}_is_null"])
    values = _plain(batch[name])
    return [None if mask else value for value, mask in zip(values, masks, strict=True)]


def _plain(values: Any) -> list[Any]:
    """Return a batch column as Python values, with strings decoded."""
    if hasattr(values, "to_list"):  # a RaggedTensor
        return list(values.to_list())
    if not isinstance(values, list):
        values = (values.numpy() if hasattr(values, "_numpy") else values).tolist()
    found = (one.tolist() if hasattr(one, "tolist") else one for one in values)
    return [one.decode() if isinstance(one, bytes) else one for one in found]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(_read_rows(*sys.argv[1:])))
