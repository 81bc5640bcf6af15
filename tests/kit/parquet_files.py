"""Parquet files for the conversion tests."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.kinds import open_stored
from mdstorm_backend.parquet import ParquetDataset

NAN = float("nan")


def open_parquet(source: Any, **how: Any) -> ParquetDataset:
    """Open Parquet files or a table."""
    found = open_stored(source, **how)
    assert isinstance(found, ParquetDataset)
    return found


def numbers(rows: int, start: int = 0) -> pa.Table:
    """A table with an integer, a float and a string in each row."""
    ids = np.arange(start, start + rows)
    return pa.table({"id": ids, "half": ids / 2, "text": pa.array(ids).cast(pa.string())})


def write(directory: Path, *tables: pa.Table, **options: Any) -> ParquetDataset:
    """Write each table to a Parquet file, and open the files as one dataset."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, directory / f"{number}.parquet", **options)
    return open_parquet(str(directory))


def every_type() -> pa.Table:
    """A column of every storable type, with four rows that include nulls, NaN and empty values."""
    day, moment = datetime.date(1969, 12, 31), datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)
    pairs = pa.map_(pa.string(), pa.int64())
    categories = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    struct = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    columns: dict[str, pa.Array] = {
        "bool": pa.array([True, None, False, True]),
        **{
            f"{kind}{bits}": pa.array([0, None, 1, 2], f"{kind}{bits}")
            for kind in ("int", "uint")
            for bits in (8, 16, 32, 64)
        },
        "float32": pa.array([0.1, None, NAN, -0.0], pa.float32()),
        "float64": pa.array([0.1, None, NAN, -0.0]),
        "decimal": pa.array([Decimal("1.2"), None, Decimal(-3), Decimal(0)], pa.decimal128(9, 2)),
        "text": pa.array(["", None, "ä\0b", "x" * 300]),
        "large_text": pa.array(["", None, "b", "c"], pa.large_string()),
        "category": pa.array(["u", None, "v", "u"]).dictionary_encode(),
        "categories": pa.array([["u"], ["v"], None, []], categories),
        "binary": pa.array([b"", None, b"\0\xff", b"x" * 300]),
        "date": pa.array([day, None, day, day]),
        "moment": pa.array([moment, None, moment, moment], pa.timestamp("us")),
        "instant": pa.array([moment, None, moment, moment], pa.timestamp("us", "UTC")),
        "millis": pa.array([1, None, 2, 3], pa.timestamp("ms")),
        "duration": pa.array([1, None, 2, 3], pa.duration("us")),
        "floats": pa.array([[1.5], None, [], [NAN, None]], pa.list_(pa.float32())),
        "same_length": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.int32())),
        "bools": pa.array([[True], None, [], [None, False]]),
        "days": pa.array([[day], None, [], [None]]),
        "texts": pa.array([["a", ""], None, [], [None]]),
        "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None}, {"a": 2, "b": []}], struct),
        "pairs": pa.array([[("k", 1)], None, [], [("k", None)]], pairs),
        "nested": pa.array([[[1], []], None, [], [None]], pa.list_(pa.list_(pa.int64()))),
    }
    return pa.table(columns)
