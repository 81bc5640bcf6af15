"""Each kind of fault in what a program reads fails the comparison, and nothing else does."""

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from tests.contract.compare.made_up import compare_loaders, loader_at, recorder

_Columns: TypeAlias = dict[str, Sequence[Any]]
ROWS = 12


def columns() -> _Columns:
    """Return a table with columns of many types."""
    day = datetime.datetime(2021, 3, 4)
    return {
        "id": np.arange(ROWS, dtype=np.int32),
        "count": np.arange(ROWS, dtype=np.uint8) * 3,
        "ratio": np.linspace(0.1, 7.3, ROWS).astype(np.float32),
        "exact": np.linspace(-1, 1, ROWS) ** 3,
        "flag": np.arange(ROWS) % 3 == 0,
        "name": [f"oak {row}" for row in range(ROWS)],
        "note": [None, "", "None", *(f"n{row}" for row in range(ROWS - 3))],
        "image": [bytes([row, 255, 0]) for row in range(ROWS)],
        "price": [decimal.Decimal(row) / 4 for row in range(ROWS)],
        "time": np.array([day + datetime.timedelta(hours=row) for row in range(ROWS)], "M8[ns]"),
        "day": np.arange(ROWS).astype("M8[D]"),
        "hole": np.where(np.arange(ROWS) % 4 == 1, np.nan, np.arange(ROWS) * 0.5),
        "vec": np.arange(ROWS * 3, dtype=np.float64).reshape(ROWS, 3),
        "grid": np.arange(ROWS * 4, dtype=np.int16).reshape(ROWS, 2, 2),
    }


def loader(table: _Columns, size: int = 4, passes: int = 1, **arguments: object) -> dict[str, Any]:
    """Return a loader that read a table in batches."""
    found = recorder.PassTotals(is_batched=True)
    rows = len(next(iter(table.values())))
    for start in range(0, rows, size):
        found.add({name: values[start : start + size] for name, values in table.items()})
    one = [-(-rows // size), rows, True]
    given = {"shuffle_row_groups": False, **arguments}
    return loader_at(0, data=found.to_json(), passes=[one] * passes, arguments=given)


def _with(name: str, change: Callable[[Any], Sequence[Any]]) -> Callable[[_Columns], _Columns]:
    return lambda table: {**table, name: change(table[name])}


def _at(name: str, row: int, value: Any) -> Callable[[_Columns], _Columns]:
    def change(values: Any) -> Any:
        values = values.copy()
        values[row] = value
        return values

    return _with(name, change)


def _rows(order: Sequence[int]) -> Callable[[_Columns], _Columns]:
    return lambda table: {name: _taken(values, order) for name, values in table.items()}


def _taken(values: Any, order: Sequence[int]) -> Any:
    if isinstance(values, np.ndarray):
        return values[list(order)]
    return [values[row] for row in order]


_EVERY = [*range(ROWS)]
#: Kinds of faults, each with the word that the report must contain.
FAULTS: dict[str, tuple[Callable[[_Columns], _Columns], str]] = {
    "last row is lost": (_rows(_EVERY[:-1]), "rows"),
    "first row is lost": (_rows(_EVERY[1:]), "rows"),
    "row is doubled": (_rows([*_EVERY, 5]), "rows"),
    "row is replaced by its neighbour": (_rows([0, 1, 1, *range(3, ROWS)]), "values"),
    "rows are reversed": (_rows(_EVERY[::-1]), "order"),
    "two rows are swapped": (_rows([1, 0, *range(2, ROWS)]), "order"),
    "column moves against the others": (_with("name", lambda x: [*x[1:], x[0]]), "name"),
    "two values of a column are swapped": (_with("vec", lambda x: x[[1, 0, *_EVERY[2:]]]), "vec"),
    "integer differs by one": (_at("id", 7, 8), "id"),
    "float differs in its last digits": (_at("exact", 3, -0.0939143501127), "exact"),
    "float changes its sign": (_at("ratio", 2, -1.4090909), "ratio"),
    "number becomes infinite": (_at("ratio", 2, np.inf), "ratio"),
    "number becomes null": (_at("hole", 3, np.nan), "hole"),
    "null becomes zero": (_at("hole", 1, 0.0), "hole"),
    "flag is inverted": (_at("flag", 4, True), "flag"),
    "text changes its case": (_at("name", 4, "Oak 4"), "name"),
    "text gets a space": (_at("name", 4, "oak 4 "), "name"),
    "empty text becomes null": (_at("note", 1, None), "note"),
    "null becomes empty text": (_at("note", 0, ""), "note"),
    "null becomes the text None": (_at("note", 0, "None"), "note"),
    "text becomes bytes": (_with("name", lambda x: [one.encode() for one in x]), "name"),
    "bytes change": (_at("image", 6, b"\6\377\1"), "image"),
    "decimal changes": (_at("price", 6, decimal.Decimal("1.51")), "price"),
    "time moves by an hour": (_with("time", lambda x: x + np.timedelta64(1, "h")), "time"),
    "one time moves by a minute": (_at("time", 5, np.datetime64("2021-03-04T05:01")), "time"),
    "day moves": (_with("day", lambda x: x - 1), "day"),
    "element of an array changes": (_at("vec", 5, [15, 16, 18]), "vec"),
    "elements of an array are swapped": (_at("vec", 5, [16, 15, 17]), "vec"),
    "arrays are transposed": (_with("grid", lambda x: x.transpose(0, 2, 1)), "grid"),
    "arrays are flat": (_with("grid", lambda x: x.reshape(ROWS, 4)), "grid"),
    "integers are wider": (_with("id", lambda x: x.astype(np.int64)), "id"),
    "floats are wider": (_with("ratio", lambda x: x.astype(np.float64)), "ratio"),
    "numbers become rows of one": (_with("id", lambda x: x.reshape(ROWS, 1)), "id"),
    "column is missing": (lambda table: {k: v for k, v in table.items() if k != "flag"}, "flag"),
    "column is renamed": (lambda t: {("flags" if k == "flag" else k): t[k] for k in t}, "flags"),
    "column is new": (lambda table: {**table, "more": np.zeros(ROWS, np.float32)}, "more"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_kind_of_fault_fails_comparison_and_is_named(fault: str, tmp_path: Path) -> None:
    change, word = FAULTS[fault]
    code, report = compare_loaders(tmp_path, loader(columns()), loader(change(columns())))
    assert code == 1
    assert word in report


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"size": 6}, "batches"),
        ({"size": 5}, "batches"),
        ({"passes": 2}, "passes"),
        ({"size": ROWS}, "batches"),
    ],
)
def test_change_of_batches_or_passes_fails_comparison(
    changed: Mapping[str, int], word: str, tmp_path: Path
) -> None:
    new = loader(columns(), **changed)
    code, report = compare_loaders(tmp_path, loader(columns()), new)
    assert code == 1
    assert word in report


def _rounded(table: _Columns) -> _Columns:
    return _with("exact", lambda x: x * (1 + 1e-15))(table)


#: What may change between two runs of a right program, with the arguments of its loader.
ALLOWED: dict[str, tuple[Callable[[_Columns], _Columns], dict[str, object]]] = {
    "nothing": (dict, {}),
    "seed": (dict, {"seed": 7}),
    "order of columns": (lambda table: dict(reversed(table.items())), {}),
    "order of shuffled rows": (_rows(_EVERY[::-1]), {"shuffle_row_groups": True}),
    "order of rows from processes": (_rows(_EVERY[::-1]), {"reader_pool_type": "process"}),
    "rounding of computed floats": (_rounded, {"transform_spec": "TransformSpec"}),
    "null instead of the text None": (_at("note", 2, None), {}),
    "new unsigned column": (lambda table: {**table, "more": np.zeros(ROWS, np.uint16)}, {}),
    "layout in memory": (_with("grid", np.asfortranarray), {}),
    "texts as objects": (_with("name", lambda x: np.array(x, object)), {}),
}


@pytest.mark.parametrize("change", ALLOWED)
def test_allowed_change_passes_comparison(change: str, tmp_path: Path) -> None:
    changed, arguments = ALLOWED[change]
    old, new = loader(columns(), **arguments), loader(changed(columns()), **arguments)
    assert compare_loaders(tmp_path, old, new)[0] == 0
