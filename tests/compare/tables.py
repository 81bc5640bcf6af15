"""Tables that programs read: the same values with any version of NumPy and pyarrow."""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_DAY = datetime.date(2021, 3, 1)
_TIME = datetime.datetime(2021, 3, 1, 12, 30, 0, 250)

#: How each column is made, of the numbers of its rows and a generator.
COLUMNS = {
    "id": lambda ids, random: pa.array(ids),
    "small": lambda ids, random: pa.array((ids % 100 - 50).astype(np.int16)),
    "count": lambda ids, random: pa.array(random.randint(0, 10**6, len(ids)).astype(np.int32)),
    "ratio": lambda ids, random: pa.array(random.rand(len(ids))),
    "half": lambda ids, random: pa.array(random.rand(len(ids)).astype(np.float32)),
    "flag": lambda ids, random: pa.array(ids % 3 == 0),
    "name": lambda ids, random: pa.array([f"näme {i}" for i in ids]),
    "raw": lambda ids, random: pa.array([bytes([i % 256, 0, 1]) for i in ids]),
    "day": lambda ids, random: pa.array([_DAY + datetime.timedelta(int(i)) for i in ids]),
    "time": lambda ids, random: pa.array(
        [_TIME + datetime.timedelta(minutes=int(i)) for i in ids], pa.timestamp("us")
    ),
    "price": lambda ids, random: pa.array([Decimal(int(i)) / 4 for i in ids], pa.decimal128(9, 2)),
    "vec": lambda ids, random: pa.array(
        list(random.rand(len(ids), 3).astype(np.float32)), pa.list_(pa.float32())
    ),
    "grid": lambda ids, random: pa.array([[i, -i] for i in ids.tolist()], pa.list_(pa.int64())),
    # With nulls, or of a type that Petastorm does not read:
    "maybe": lambda ids, random: pa.array([None if i == 3 else i for i in ids], pa.int32()),
    "hole": lambda ids, random: pa.array([None if i % 4 == 1 else i / 8 for i in ids]),
    "note": lambda ids, random: pa.array([None if i % 5 == 2 else f"n{i}" for i in ids]),
    "big": lambda ids, random: pa.array(ids.astype(np.uint32)),
}  # type: dict[str, Any]


def write_table(
    folder: str, columns: Sequence[str], rows: int, group: int, files: int, seed: int
) -> str:
    """Write a table in row groups of `group` rows; return the URL of its folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    random = np.random.RandomState(seed)
    for number, ids in enumerate(np.array_split(np.arange(rows), files)):
        table = pa.table({name: COLUMNS[name](ids, random) for name in columns})
        pq.write_table(
            table, Path(folder, f"part-{number}.parquet"), row_group_size=group, version="2.6"
        )
    return f"file://{folder}"
