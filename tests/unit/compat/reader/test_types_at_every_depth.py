"""Types are read by the same rules alone, in lists, structs and maps, and in converted data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.readers import batch_reader

from mdstorm import convert

#: Values of each type, none of them null.
VALUES: dict[pa.DataType, list[Any]] = {
    pa.uint8(): [0, 255],
    pa.uint16(): [0, 65_535],
    pa.uint32(): [0, 2**32 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.float16(): [np.float16(0.5), np.float16(-2)],
    pa.int64(): [-1, 2**62],
    pa.string(): ["", "text"],
}
#: Types that hold others, with a function from a value to one of them.
Nesting = tuple[Callable[[pa.DataType], pa.DataType], Callable[[Any], Any]]
NESTED: dict[str, Nesting] = {
    "struct": (lambda type_: pa.struct([("a", type_)]), lambda value: {"a": value}),
    "map": (lambda type_: pa.map_(pa.string(), type_), lambda value: [("k", value)]),
    "list of structs": (
        lambda type_: pa.list_(pa.struct([("a", type_)])),
        lambda value: [{"a": value}, {"a": None}],
    ),
    "struct of lists": (
        lambda type_: pa.struct([("a", pa.list_(type_))]),
        lambda value: {"a": [value, value]},
    ),
    "list of lists": (lambda type_: pa.list_(pa.list_(type_)), lambda value: [[value], []]),
}
#: Old versions of pyarrow do not write float16 to Parquet.
each_type = pytest.mark.parametrize(
    "type_",
    [
        pytest.param(type_, marks=pytest.mark.newest) if type_ == pa.float16() else type_
        for type_ in VALUES
    ],
    ids=str,
)
each_nesting = pytest.mark.parametrize("nesting", NESTED)


def write(path: Path, type_: pa.DataType, values: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"v": pa.array(values, type_)}), path)


def plain(value: Any) -> Any:
    """Return a value of a reader in plain Python; nulls in lists of numbers are NaN there."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value


def values_in(url: str) -> list[Any]:
    with batch_reader(url, schema_fields=["v"], num_epochs=1) as reader:
        return [plain(value) for batch in reader for value in batch.v]


@pytest.mark.matrix
@each_nesting
@each_type
def test_nested_values_are_read_as_stored(type_: pa.DataType, nesting: str, tmp_path: Path) -> None:
    wrap, value_of = NESTED[nesting]
    values = [value_of(value) for value in VALUES[type_]]
    write(tmp_path / "rows" / "0.parquet", wrap(type_), values)
    url = f"file://{tmp_path / 'rows'}"
    expected = plain(values)
    assert values_in(url) == expected
    convert(url, f"file://{tmp_path / 'mds'}")
    assert values_in(f"file://{tmp_path / 'mds'}") == expected


@pytest.mark.matrix
@each_nesting
@each_type
def test_files_with_nulls_of_unknown_type_are_read_with_others(
    type_: pa.DataType, nesting: str, tmp_path: Path
) -> None:
    wrap, value_of = NESTED[nesting]
    value = value_of(VALUES[type_][1])
    write(tmp_path / "0.parquet", wrap(pa.null()), [value_of(None)])
    write(tmp_path / "1.parquet", wrap(type_), [value])
    assert values_in(f"file://{tmp_path}") == plain([value_of(None), value])


@each_nesting
def test_files_with_narrower_numbers_are_read_with_wider_ones(nesting: str, tmp_path: Path) -> None:
    wrap, value_of = NESTED[nesting]
    write(tmp_path / "0.parquet", wrap(pa.int32()), [value_of(7)])
    write(tmp_path / "1.parquet", wrap(pa.int64()), [value_of(2**40)])
    assert values_in(f"file://{tmp_path}") == plain([value_of(7), value_of(2**40)])
