"""`mdstorm compare` reports every random change of what a program read, and nothing else.

Rows are drawn, recorded, changed and recorded again. What has changed is decided without the tool,
by the rows themselves: their sequence, or in a reader that shuffles, how often each occurs.
Computed floats may be rounded, and times truncated to microseconds. Floats are multiples of a
quarter, so that rounding does not change their first five digits.
"""

import datetime
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.compare.made_up import compare_loaders, loader_at, recorder

Table = dict[str, list[Any]]
NOON = np.datetime64("2024-01-01T12", "ns")


def number(draw: random.Random) -> float:
    return draw.randrange(-4000, 4000) / 4


def array(shape: tuple[int, ...], dtype: str) -> Callable[[random.Random], Any]:
    def make(draw: random.Random) -> Any:
        values = [number(draw) for _ in range(int(np.prod(shape)))]
        return np.array(values).reshape(shape).astype(dtype)

    return make


def ragged(draw: random.Random) -> Any:
    return array((draw.randrange(1, 5), 2), "float32")(draw)


#: How a value of a column is drawn, by the type of the column.
TYPES: dict[str, Callable[[random.Random], Any]] = {
    "float64": number,
    "float32": lambda draw: np.float32(number(draw)),
    "vector": array((5,), "float32"),
    "image": array((3, 4, 3), "float32"),
    "doubles": array((2, 3), "float64"),
    "ragged": ragged,
    "lists": lambda draw: [number(draw) for _ in range(3)],
    "integer": lambda draw: draw.randrange(100),
    "integers": array((4,), "int16"),
    "flag": lambda draw: draw.random() < 0.5,
    "text": lambda draw: "".join(draw.choices("ab ", k=3)),
    "bytes": lambda draw: draw.randbytes(2),
    "decimal": lambda draw: Decimal(draw.randrange(1000)) / 4,
    "day": lambda draw: datetime.date(2024, 1, draw.randrange(1, 29)),
    "time": lambda draw: np.datetime64("2024-01-01") + draw.randrange(100),
    "nanoseconds": lambda draw: NOON + draw.randrange(10**9) * 1000 + draw.randrange(1000),
    "hole": lambda draw: draw.choice([None, "x", "y", "z"]),
}
FLOATS = ("float64", "float32", "vector", "image", "doubles", "ragged", "lists")

# Changes: of one value, of a column, of rows, of columns


def moved(value: Any, draw: random.Random) -> Any:
    """Return a value with its elements in another order."""
    if isinstance(value, list):
        return draw.sample(value, len(value))
    if not np.ndim(value):
        return value
    flat = value.reshape(-1)[draw.sample(range(value.size), value.size)]
    return draw.choice([value[::-1], value[..., ::-1], flat.reshape(value.shape)])


def replaced(table: Table, name: str, row: int, value: Any) -> Table:
    return {**table, name: [*table[name][:row], value, *table[name][row + 1 :]]}


def other_value(table: Table, name: str, draw: random.Random) -> Table:
    return replaced(table, name, draw.randrange(len(table[name])), TYPES[name](draw))


def moved_elements(table: Table, name: str, draw: random.Random) -> Table:
    row = draw.randrange(len(table[name]))
    return replaced(table, name, row, moved(table[name][row], draw))


def moved_elements_everywhere(table: Table, name: str, draw: random.Random) -> Table:
    seed = draw.random()
    return {**table, name: [moved(one, random.Random(seed)) for one in table[name]]}


def exchanged_elements(table: Table, name: str, draw: random.Random) -> Table:
    """Exchange an element of two rows, so that the sums of the column stay."""
    one, other = draw.sample(range(len(table[name])), 2)
    first, second = np.array(table[name][one]), np.array(table[name][other])
    if first.ndim != 1 or first.shape != second.shape or first.dtype.kind not in "fi":
        return table
    first[0], second[0] = second[0].copy(), first[0].copy()
    return replaced(replaced(table, name, one, first), name, other, second)


def swapped_values(table: Table, name: str, draw: random.Random) -> Table:
    one, other = draw.sample(range(len(table[name])), 2)
    first, second = table[name][one], table[name][other]
    return replaced(replaced(table, name, one, second), name, other, first)


def of_rows(choose: Callable[[int, random.Random], list[int]]) -> Any:
    def change(table: Table, name: str, draw: random.Random) -> Table:
        rows = choose(len(table[name]), draw)
        return {column: [values[row] for row in rows] for column, values in table.items()}

    return change


def lost_column(table: Table, name: str, draw: random.Random) -> Table:
    return {column: values for column, values in table.items() if column != name}


def rounded(table: Table, name: str, draw: random.Random) -> Table:
    def up(value: Any) -> Any:
        if isinstance(value, list):
            return [float(up(one)) for one in value]
        return np.nextafter(value, np.asarray(value).dtype.type(np.inf))

    return {**table, name: [up(one) for one in table[name]]} if name in FLOATS else table


def truncated(table: Table, name: str, draw: random.Random) -> Table:
    """Truncate times to microseconds, as mdstorm does."""
    times = table.get("nanoseconds", [])
    return {**table, "nanoseconds": [one.astype("M8[us]").astype("M8[ns]") for one in times]}


CHANGES: list[Callable[[Table, str, random.Random], Table]] = [
    lambda table, name, draw: table,
    lambda table, name, draw: dict(draw.sample([*table.items()], len(table))),
    other_value,
    moved_elements,
    moved_elements_everywhere,
    exchanged_elements,
    swapped_values,
    rounded,
    lambda table, name, draw: rounded(moved_elements_everywhere(table, name, draw), name, draw),
    of_rows(lambda rows, draw: draw.sample(range(rows), rows)),
    of_rows(lambda rows, draw: [*range(rows - 1)]),
    of_rows(lambda rows, draw: [*range(rows), draw.randrange(rows)]),
    of_rows(lambda rows, draw: sorted([*range(1, rows), draw.randrange(1, rows)])),
    lost_column,
    lambda table, name, draw: truncated(table, name, draw) if "nanoseconds" in table else table,
]

# What a person would compare


def shown(value: Any, *, is_computed: bool) -> object:
    """Return a value as it is compared: computed floats with five digits, times truncated."""
    if isinstance(value, np.datetime64):
        return str(value.astype("M8[us]"))
    if isinstance(value, list | np.ndarray) and np.ndim(value):
        parts = [shown(one, is_computed=is_computed) for one in value]
        return (type(value).__name__, str(getattr(value, "dtype", "")), tuple(map(str, parts)))
    is_float = isinstance(value, float | np.floating) and is_computed
    return f"{np.asarray(value).dtype} {value:.5g}" if is_float else repr(value)


def rows_of(table: Table, *, is_computed: bool) -> list[tuple[object, ...]]:
    columns = [
        [(name, shown(one, is_computed=is_computed)) for one in table[name]]
        for name in sorted(table)
    ]
    return [*zip(*columns, strict=True)]


def is_changed(old: Table, new: Table, *, is_computed: bool, shuffles: bool) -> bool:
    one, other = (rows_of(table, is_computed=is_computed) for table in (old, new))
    return Counter(one) != Counter(other) if shuffles else one != other


# Recordings


def recorded(table: Table, size: int, **arguments: object) -> dict[str, Any]:
    found = recorder.PassTotals(is_batched=True)
    rows = len(next(iter(table.values())))
    for start in range(0, rows, size):
        batch = {name: values[start : start + size] for name, values in table.items()}
        found.add({name: stacked(name, values) for name, values in batch.items()})
    return loader_at(
        0, data=found.to_json(), passes=[[-(-rows // size), rows, True]], arguments=arguments
    )


def stacked(name: str, values: list[Any]) -> Any:
    """Return a column of a batch as readers yield it."""
    if name in ("ragged", "lists", "bytes", "decimal", "day", "hole", "text"):
        return values
    return np.array(values)


SEEDS = [*range(12), *(pytest.param(n, marks=pytest.mark.long) for n in range(12, 120))]


@pytest.mark.parametrize("seed", SEEDS)
def test_change_of_rows_is_reported_and_nothing_else(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    for change in CHANGES:
        rows, size = draw.randrange(2, 9), draw.randrange(1, 5)
        names = draw.sample([*TYPES], draw.randrange(1, 4))
        old = {name: [TYPES[name](draw) for _ in range(rows)] for name in names}
        name = draw.choice(names)
        new = change(old, name, draw)
        is_computed, shuffles = draw.random() < 0.5, draw.random() < 0.5
        if not new or (change is rounded and not is_computed):
            continue
        arguments: dict[str, object] = {"shuffle_row_groups": shuffles}
        arguments |= {"transform_spec": "TransformSpec"} if is_computed else {}
        loaders = [recorded(table, size, **arguments) for table in (old, new)]
        code, report = compare_loaders(tmp_path, *loaders)
        expected = is_changed(old, new, is_computed=is_computed, shuffles=shuffles)
        assert code == expected, (CHANGES.index(change), arguments, old, new, report)
