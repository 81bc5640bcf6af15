"""Write a small DataFrame, read it back, compare its values, and delete it."""

from __future__ import annotations

import secrets
import signal
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mdstorm.doctor._report import Finding
from mdstorm.doctor._requirements import installed, no_new_directories
from mdstorm.spark import make_spark_converter
from mdstorm_backend.spark import start_session
from mdstorm_backend.storage import Location, normalize_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 997
_COLUMNS = "id LONG, flag BOOLEAN, whole INT, real DOUBLE, text STRING, vector ARRAY<FLOAT>"
_NAMES = [column.split()[0] for column in _COLUMNS.split(", ")]


def row_of(number: int) -> tuple[Any, ...]:
    """Return the row with this id; some rows are null in all other columns."""
    if number % 7 == 3:
        return number, None, None, None, None, None
    vector = [float(number), number + 0.5]
    return number, number % 3 == 0, number - 5, number / 8, f"é {number}", vector


def make_round_trip(url: str, session: SparkSession | None) -> Iterator[Finding]:
    """Write the rows with Spark, and read them back with PyTorch, or else with TensorFlow."""
    with warnings.catch_warnings(), _session(session) as spark, _own_directory(url) as directory:
        warnings.simplefilter("ignore")
        frame = spark.createDataFrame([row_of(number) for number in range(ROWS)], _COLUMNS)
        converter = make_spark_converter(frame, parent_cache_dir_url=directory.url, dtype=None)
        shards = f"{len(converter.file_urls)} shards under {normalize_url(url)}"
        yield Finding("round-trip", "ok", f"Spark wrote {len(converter)} rows in {shards}")
        library = next(filter(installed, ("torch", "tensorflow")), None)
        if library is not None:
            device, rows = _read_rows(converter, library)
            yield judged(f"{library} on {device}", rows)
        converter.delete()
    yield Finding("round-trip", "ok", "the copy is deleted")


def judged(how: str, rows: Iterable[tuple[Any, ...]]) -> Finding:
    """Return a finding about missing, repeated and wrong rows."""
    found = list(rows)
    distinct = {row[0] for row in found}
    wrong = sum(row != row_of(row[0]) for row in found)
    if len(found) == len(distinct) == ROWS and not wrong:
        right = f"{how}: all {ROWS} rows, each once, with the right values"
        return Finding("round-trip", "ok", right)
    lost, repeated = ROWS - len(distinct), len(found) - len(distinct)
    return Finding(
        "round-trip",
        "problem",
        f"{how}: {lost} rows lost, {repeated} repeated, {wrong} with wrong values",
        "report it with the output of `mdstorm doctor --format json`",
    )


def _read_rows(converter: Any, library: str) -> tuple[str, list[tuple[Any, ...]]]:
    """Return the device of a library's tensors, and all rows that it reads."""
    arguments = {"batch_size": 64, "num_epochs": 1, "seed": 7, "null_masks": _NAMES[1:]}
    if library == "torch":
        import torch

        device = "cuda" if torch.cuda.is_available() else None
        loader: Iterable[Any] = converter.make_torch_dataloader(device=device, **arguments)
    else:
        device = None
        loader = (batch._asdict() for batch in converter.make_tf_dataset(**arguments))
    rows: list[tuple[Any, ...]] = []
    for batch in loader:
        columns = [_plain(batch["id"])]
        for name in _NAMES[1:]:
            pairs = zip(_plain(batch[name]), _plain(batch[f"{name}_is_null"]), strict=True)
            columns.append([None if is_null else value for value, is_null in pairs])
        rows += zip(*columns, strict=True)
    return device or "cpu", rows


def _plain(values: Any) -> list[Any]:
    """Return a batch column as Python values, with strings decoded."""
    if hasattr(values, "to_list"):  # a RaggedTensor
        return list(values.to_list())
    if not isinstance(values, list):
        values = (values.numpy() if hasattr(values, "_numpy") else values).tolist()
    found = (one.tolist() if hasattr(one, "tolist") else one for one in values)
    return [one.decode() if isinstance(one, bytes) else one for one in found]


@contextmanager
def _session(given: SparkSession | None) -> Iterator[SparkSession]:
    """Yield the given session, or start one and stop it on exit."""
    if given is not None:
        yield given
        return
    started = start_session()
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
    with no_new_directories(directory):
        try:
            yield directory
        finally:
            for file in directory.list_names():
                directory.remove(file)
            directory.remove_directory_if_empty()
