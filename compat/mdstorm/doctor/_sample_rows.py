"""The rows of a round trip: every type of Spark, with nulls, computed from the number of the row.

Spark computes them from the SQL of each column, and this module without Spark, so that what comes
back can be compared with values that never were in a file.

``python -m mdstorm.doctor._sample_rows torch URL`` reads them, and prints JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mdstorm.spark import SparkDatasetConverter, make_spark_converter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 997
_PARTITIONS = 3
_DAY_ZERO = date(1970, 1, 1)
_TIME_ZERO = datetime(1970, 1, 1)
_FIRST_TIME = datetime.fromtimestamp(1_600_000_000, timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def _same(value: Any) -> Any:
    return value


def _nanoseconds(value: Any) -> int:
    if isinstance(value, datetime):
        since = value.replace(tzinfo=None) - _TIME_ZERO
    else:
        since = value - _DAY_ZERO
    return since // _MICROSECOND * 1000


def _bytes_of(value: Any) -> Any:
    return [_bytes_of(one) for one in value] if isinstance(value, list) else str(value).encode()


@dataclass(frozen=True)
class Column:
    """A column of the DataFrame.

    Attributes
    ----------
    sql : str
        Its values, as an expression over ``id``.
    value : callable
        The value of the row with a number, as Arrow gives it to Python.
    in_arrow, in_torch, in_tf : callable or None
        What becomes of a value in each library; None for what is not delivered.
    """

    sql: str
    value: Callable[[int], Any]
    in_arrow: Callable[[Any], Any] = _same
    in_torch: Callable[[Any], Any] = _same
    in_tf: Callable[[Any], Any] | None = _same


COLUMNS = {
    "boolean": Column("id % 3 = 0", lambda i: i % 3 == 0),
    "byte": Column("CAST(id % 100 - 50 AS TINYINT)", lambda i: i % 100 - 50),
    "short": Column("CAST(id * 3 - 500 AS SMALLINT)", lambda i: i * 3 - 500),
    "integer": Column("CAST(id * 1000 - 5 AS INT)", lambda i: i * 1000 - 5),
    "long": Column("id * 10000000000 + 7", lambda i: i * 10_000_000_000 + 7),
    "float": Column("CAST(id / 4 AS FLOAT)", lambda i: i / 4),
    "double": Column("CAST(id / 8 AS DOUBLE)", lambda i: i / 8),
    "decimal": Column(
        "CAST(CAST(id AS DECIMAL(12, 2)) / 100 AS DECIMAL(12, 2))",
        lambda i: Decimal(i) / 100,
        in_tf=lambda value: f"{value:.2f}".encode(),
    ),
    "string": Column("concat('é ', CAST(id AS STRING))", lambda i: f"é {i}", in_tf=_bytes_of),
    "binary": Column("CAST(CAST(id AS STRING) AS BINARY)", lambda i: str(i).encode()),
    "date": Column(
        "date_add(DATE'2020-01-01', CAST(id AS INT))",
        lambda i: date(2020, 1, 1) + timedelta(days=i),
        in_tf=_nanoseconds,
    ),
    "timestamp": Column(
        "timestamp_micros(1600000000000000 + id * 1000001)",
        lambda i: _FIRST_TIME + i * 1_000_001 * _MICROSECOND,
        in_torch=_nanoseconds,
        in_tf=_nanoseconds,
    ),
    "timestamp_ntz": Column(
        "CAST('2020-01-01 00:00:00' AS TIMESTAMP_NTZ) + make_dt_interval(0, 0, CAST(id AS INT), 0)",
        lambda i: datetime(2020, 1, 1) + timedelta(minutes=i),
        in_torch=_nanoseconds,
        in_tf=_nanoseconds,
    ),
    "interval": Column(
        "make_dt_interval(0, 0, CAST(id AS INT), 0)",
        lambda i: timedelta(minutes=i),
        in_torch=lambda value: value // _MICROSECOND,
        in_tf=lambda value: value // _MICROSECOND,
    ),
    "floats": Column(
        "array(CAST(id AS FLOAT), CAST(id + 1 AS FLOAT))", lambda i: [float(i), float(i + 1)]
    ),
    "ragged": Column(
        "slice(array(id, id + 1, id + 2), 1, CAST(id % 4 AS INT))",
        lambda i: [i, i + 1, i + 2][: i % 4],
    ),
    "nested": Column(
        "array(array(CAST(id AS DOUBLE)), array(CAST(id + 1 AS DOUBLE)))",
        lambda i: [[float(i)], [float(i + 1)]],
    ),
    "strings": Column("array('a', CAST(id AS STRING))", lambda i: ["a", str(i)], in_tf=_bytes_of),
    "struct": Column(
        "named_struct('a', id, 'b', CAST(id AS STRING))",
        lambda i: {"a": i, "b": str(i)},
        in_tf=None,
    ),
    "map": Column("map('k', id)", lambda i: [("k", i)], in_tf=None),
}


def is_null(row: int) -> bool:
    """Whether all columns but ``id`` are null in a row."""
    return row % 7 == 3


def sample_frame(session: SparkSession) -> DataFrame:
    """Return the DataFrame: ``id``, and every column of `COLUMNS`."""
    values = (
        f"CASE WHEN id % 7 = 3 THEN NULL ELSE {column.sql} END AS `{name}`"
        for name, column in COLUMNS.items()
    )
    return session.range(0, ROWS, 1, _PARTITIONS).selectExpr("id", *values)


def wrong_values(
    ids: Iterable[int], found: Mapping[str, Iterable[Any]], library: str
) -> dict[str, int]:
    """Count the values of each column that are not those of their rows.

    Parameters
    ----------
    ids : iterable of int
        The numbers of the rows.
    found : mapping
        The values of each column, in that order; None for a null.
    library : {"in_arrow", "in_torch", "in_tf"}
        What has become of them.
    """
    rows = list(ids)
    wrong = {}
    for name, values in found.items():
        column = COLUMNS[name]
        convert = getattr(column, library)
        expected = (None if is_null(i) else convert(column.value(i)) for i in rows)
        count = sum(one != other for one, other in zip(values, expected, strict=True))
        if count:
            wrong[name] = count
    return wrong


def read_rows(library: str, url: str) -> dict[str, Any]:
    """Read all rows.

    Returns
    -------
    dict
        The ``ids`` of the rows in their order; ``wrong``, the number of wrong values by column; and
        the ``device`` of the tensors.
    """
    converter = make_spark_converter(url)
    kind = "in_torch" if library == "torch" else "in_tf"
    names = [name for name, column in COLUMNS.items() if getattr(column, kind) is not None]
    arguments: dict[str, Any] = {
        "batch_size": 64,
        "num_epochs": 1,
        "seed": 7,
        "shuffling_queue_capacity": 200,
        "schema_fields": ["id", *names],
        "null_masks": names,
        "decimals": "decimal",
    }
    ids: list[int] = []
    wrong: Counter[str] = Counter()
    device = "cpu"
    if library == "torch":
        loader = _torch_loader(converter, arguments)
    else:
        loader = converter.make_tf_dataset(**arguments)
    for batch in loader:
        columns = batch if library == "torch" else batch._asdict()
        rows = _plain(columns["id"])
        wrong.update(wrong_values(rows, {n: _with_nulls(columns, n) for n in names}, kind))
        ids += rows
        device = str(getattr(columns["id"], "device", device)).rpartition("device:")[2].lower()
    return {"ids": ids, "wrong": wrong, "device": device}


def _torch_loader(converter: SparkDatasetConverter, arguments: dict[str, Any]) -> Any:
    import torch

    device = "cuda" if torch.cuda.is_available() else None
    return converter.make_torch_dataloader(device=device, **arguments)


def _with_nulls(batch: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values of a column, with None where its mask says so."""
    masks = _plain(batch[f"{name}_is_null"])
    values = _plain(batch[name])
    return [None if mask else value for value, mask in zip(values, masks, strict=True)]


def _plain(values: Any) -> list[Any]:
    """Return a column of a batch as values of Python."""
    if isinstance(values, list):
        return [one.tolist() if hasattr(one, "tolist") else one for one in values]
    if hasattr(values, "to_list"):  # a RaggedTensor
        return list(values.to_list())
    return list((values.numpy() if hasattr(values, "_numpy") else values).tolist())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(read_rows(*sys.argv[1:])))
