"""Tables that programs read, with the same values for any version of NumPy and pyarrow."""

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_DAY = datetime.date(2021, 3, 1)
_TIME = datetime.datetime(2021, 3, 1, 12, 30, 0, 250)

#: Functions that return a column, given its row numbers and a random generator.
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
    # Columns with nulls, or of a type that Petastorm does not read:
    "maybe": lambda ids, random: pa.array([None if i == 3 else i for i in ids], pa.int32()),
    "hole": lambda ids, random: pa.array([None if i % 4 == 1 else i / 8 for i in ids]),
    "note": lambda ids, random: pa.array([None if i % 5 == 2 else f"n{i}" for i in ids]),
    "big": lambda ids, random: pa.array(ids.astype(np.uint32)),
}  # type: dict[str, Any]


def lost(table: pa.Table) -> pa.Table:
    """Remove a row."""
    return pa.concat_tables([table.slice(0, 5), table.slice(6)])


def doubled(table: pa.Table) -> pa.Table:
    """Repeat a row."""
    return pa.concat_tables([table.slice(0, 6), table.slice(5)])


def replaced(table: pa.Table) -> pa.Table:
    """Replace a row with a copy of another one."""
    return pa.concat_tables([table.slice(0, 5), table.slice(4, 1), table.slice(6)])


def swapped_rows(table: pa.Table) -> pa.Table:
    """Swap two rows."""
    order = np.arange(len(table))
    order[[2, 3]] = [3, 2]
    return table.take(order)


def cast(name: str, dtype: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    """Return a function that changes the type of a column."""

    def damage(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        return table.set_column(at, name, table[name].cast(dtype, safe=False))

    return damage


def edited(name: str, edit: Callable[[list[Any]], Any]) -> Callable[[pa.Table], pa.Table]:
    """Return a function that changes the values of a column."""

    def damage(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        edit(values)
        at = table.column_names.index(name)
        return table.set_column(at, name, pa.array(values, table[name].type))

    return damage


def set_at(row: int, value: Any) -> Callable[[list[Any]], Any]:
    return lambda values: values.__setitem__(row, value)


def swap(values: list[Any]) -> None:
    """Swap two values of a column."""
    values[1], values[2] = values[2], values[1]


def nulls_as(value: Any) -> Callable[[list[Any]], Any]:
    return lambda values: values.__setitem__(
        slice(None), [value if each is None else each for each in values]
    )


def write_table(
    folder: str,
    columns: Sequence[str],
    rows: int,
    group: int,
    files: int,
    seed: int,
    damage: Callable[[pa.Table], pa.Table] = lambda table: table,
) -> str:
    """Write a table in row groups of `group` rows; return the URL of its folder.

    `damage` changes the table of each file.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    random = np.random.RandomState(seed)
    for number, ids in enumerate(np.array_split(np.arange(rows), files)):
        table = damage(pa.table({name: COLUMNS[name](ids, random) for name in columns}))
        pq.write_table(
            table, Path(folder, f"part-{number}.parquet"), row_group_size=group, version="2.6"
        )
    return f"file://{folder}"
