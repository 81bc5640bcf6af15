"""Rows out of packed shards are those out of their columns."""

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.read import packing
from mdstorm_backend.read.gather_rows import gather_columns
from mdstorm_backend.read.packing import Packing
from mdstorm_backend.read.shard import MemoryShard
from mdstorm_backend.read.window import Range, Source, Window

ROWS = 1000


def batch(first: int) -> Batch:
    numbers = np.arange(first, first + ROWS)
    return {
        "flag": numbers % 3 == 0,
        "": numbers.astype(np.float32),
        "vector": np.stack([numbers, -numbers], 1).astype(np.int16),
        "day": numbers.astype("datetime64[D]"),
        "half": numbers.astype(np.float16),
        "n": numbers,
    }


def window(count: int, *, shuffled: bool = True) -> Window:
    sources = [Source(MemoryShard(batch(ROWS * n)), 5, ROWS - 5) for n in range(count)]
    rows = count * (ROWS - 10)
    return Window(sources, np.random.default_rng(3).permutation(rows) if shuffled else None)


def ranges(of: Window, size: int = 256) -> list[Range]:
    return [Range(of, at, min(at + size, len(of))) for at in range(0, len(of), size)]


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the shards that are packed."""
    found = []
    real = packing._packed

    def pack(columns: list[np.ndarray]) -> np.ndarray:
        found.append(len(columns[0]))
        return real(columns)

    monkeypatch.setattr(packing, "_packed", pack)
    return found


@pytest.mark.parametrize("shards", [1, 3, 40])
def test_values_and_dtypes_are_the_same(shards: int, packed: list[int]) -> None:
    rows = window(shards)
    columns = tuple(batch(0))
    packing_ = Packing(columns)
    for range_ in ranges(rows, 2048):
        expected = gather_columns([range_], columns)
        found = gather_columns([range_], columns, packing=packing_)
        assert list(found) == list(expected)
        for name in columns:
            assert isinstance(found[name], np.ndarray)
            assert found[name].dtype == expected[name].dtype  # type: ignore[union-attr]
            np.testing.assert_array_equal(found[name], expected[name])
            found[name][:] = 0  # type: ignore[index]  # the reader's own
    assert packed == [ROWS] * shards


def test_nothing_is_packed_for_rows_in_order(packed: list[int]) -> None:
    gather_columns(ranges(window(2, shuffled=False)), tuple(batch(0)), packing=Packing(batch(0)))
    assert packed == []


def test_nothing_is_packed_for_a_small_part_of_a_shard(packed: list[int]) -> None:
    few = [Range(window(1), 0, ROWS // 8)]
    gather_columns(few, tuple(batch(0)), packing=Packing(tuple(batch(0))))
    assert packed == []
    more = [Range(window(1), 0, ROWS // 8 + 1)]
    gather_columns(more, tuple(batch(0)), packing=Packing(tuple(batch(0))))
    assert packed == [ROWS]


@pytest.mark.parametrize(
    "values",
    [pa.array(["a"] * ROWS), np.array(["a"] * ROWS, object), np.zeros((ROWS, 100))],
    ids=["arrow", "objects", "large"],
)
def test_other_columns_are_not_packed(values: pa.Array | np.ndarray, packed: list[int]) -> None:
    shard = MemoryShard({**batch(0), "other": values})
    rows = Window([Source(shard, 0, ROWS)], np.arange(ROWS)[::-1].copy())
    columns = tuple(shard.batch)
    found = gather_columns([Range(rows, 0, ROWS)], columns, packing=Packing(columns))
    assert found["n"].tolist() == list(range(ROWS))[::-1]  # type: ignore[union-attr]
    assert packed == []
