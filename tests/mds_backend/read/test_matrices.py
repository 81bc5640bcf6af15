"""`Dataset.batches(stack=True)`: matrices out of records of every layout, by value."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.foreign import Encodings, foreign_dataset
from tests.mds_backend.small_datasets import write_dataset

from mdstorm_backend.errors import InvalidArgumentError, NullValueError
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read import matrices

ROWS = 1500
ORDERS = [
    ExactOrder(),
    ExactOrder(seed=1, shuffle_shards=True),
    ExactOrder(seed=1, shuffle_rows=True),
    ExactOrder(seed=1, shuffle_shards=True, window=ROWS),
]
#: A whole record, neighbours, two runs, scattered values, and two of one column.
CHOICES = [list("abcdef"), list("bcd"), list("efab"), list("fbdcae"), list("ca"), list("d")]


def expected(names: list[str]) -> np.ndarray:
    return np.array([[ord(name) * 10_000 + n for name in names] for n in range(ROWS)])


def columns_of(names: str) -> dict[str, Any]:
    return {name: expected([name])[:, 0].tolist() for name in names}


@pytest.mark.parametrize("beside", ["", "g"], ids=["floats alone", "a byte beside"])
@pytest.mark.parametrize("size", [2_000, 1 << 20], ids=["many shards", "one shard"])
def test_matrices_hold_the_columns_whatever_their_layout(
    beside: str, size: int, tmp_path: Path
) -> None:
    columns = columns_of("abcdef") | {name: [n % 100 for n in range(ROWS)] for name in beside}
    fields = dict.fromkeys("abcdef", "integer") | dict.fromkeys(beside, "byte")
    dataset = write_dataset(tmp_path / "data", columns, fields, shard_size=size, batch_rows=50)
    assert (len(dataset.shard_sizes) > 16) == (size == 2_000)
    for names in CHOICES:
        for order in ORDERS:
            batches = list(dataset.batches(64, columns=names, order=order, stack=True))
            assert [len(batch) for batch in batches] == [64] * (ROWS // 64) + [ROWS % 64]
            found = np.concatenate(batches)
            assert found.dtype == np.int32
            if not order.shuffles:
                parts = dataset.batches(ROWS, columns=names, order=order)
                (columns_alone,) = parts
                assert np.array_equal(found, np.stack(list(columns_alone.values()), 1))
            assert np.array_equal(found[found[:, 0].argsort()], expected(names))


def test_records_as_they_lie_are_copied_once(tmp_path: Path) -> None:
    fields = dict.fromkeys("abcdef", "integer")
    dataset = write_dataset(tmp_path / "data", columns_of("abcdef"), fields)
    shard: Any = dataset.shard(0)
    wanted = dict.fromkeys("abcdef", np.dtype(np.int32))
    for names, is_whole in (("abcdef", True), ("bcdef", False), ("abcdfe", False)):
        (matrix,), _ = matrices.matrices_of(shard.record_dtype, wanted, [tuple(names)])
        assert matrix.is_whole(shard.record_dtype) == is_whole


@pytest.mark.parametrize("order", ORDERS)
def test_shards_of_other_encodings_take_the_type_that_holds_all(
    order: ExactOrder, tmp_path: Path
) -> None:
    """One shard has another dtype, and one its columns in another order and beside another."""
    narrow: Encodings = {"x": ("int16", 2), "y": ("int16", 2)}
    wide: Encodings = {"x": ("int64", 8), "y": ("int64", 8)}
    turned: Encodings = {"y": ("int64", 8), "x": ("int64", 8)}
    shards = [
        ([np.array([n, -n], "<i2").tobytes() for n in range(5)], narrow),
        ([np.array([n, -n], "<i8").tobytes() for n in range(5, 9)], wide),
        ([np.array([-n, n], "<i8").tobytes() for n in range(9, 14)], turned),
    ]
    dataset = foreign_dataset(tmp_path, shards)
    for size in (1, 3, 100):
        batches = list(dataset.batches(size, columns=["x", "y"], order=order, stack=True))
        assert {batch.dtype for batch in batches} == {np.dtype(np.int64)}
        found = sorted(np.concatenate(batches).tolist())
        assert found == [[n, -n] for n in range(14)]


def test_batches_that_cannot_be_matrices_say_why(tmp_path: Path) -> None:
    columns = {"x": [0.5, 1.5], "n": [1, None], "pair": [[1.0, 2.0], [3.0, 4.0]]}
    pair = {"type": "array", "elementType": "float", "containsNull": True}
    fields = {"x": "float", "n": "long", "pair": pair}
    dataset = write_dataset(tmp_path / "data", columns, fields)
    with pytest.raises(InvalidArgumentError, match="column 'pair' has array<float> values"):
        list(dataset.batches(2, columns=["x", "pair"], stack=True))
    with pytest.raises(NullValueError, match=r"columns 'n' \(1\) hold nulls"):
        list(dataset.batches(2, columns=["n"], stack=True))
    with pytest.raises(InvalidArgumentError, match="not format='arrow'"):
        dataset.batches(2, columns=["x"], format="arrow", stack=True)  # type: ignore[call-overload]
