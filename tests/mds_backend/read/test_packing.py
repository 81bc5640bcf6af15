"""Rows out of packed shards are those out of their columns."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend.format.values.batch import Batch, num_rows
from mdstorm_backend.order.sampler import Chunk
from mdstorm_backend.read import gather_rows
from mdstorm_backend.read.block import Located
from mdstorm_backend.read.gather_rows import Packing, gather_columns
from mdstorm_backend.read.matrices import Output, columns_of, output_name
from mdstorm_backend.read.shard import MemoryShard

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


def shards(count: int) -> list[MemoryShard]:
    return [MemoryShard(batch(ROWS * number)) for number in range(count)]


def shuffled(count: int) -> np.ndarray:
    """Most samples of some shards."""
    samples = np.arange(count * ROWS).reshape(count, ROWS)[:, 5:-5]
    return np.random.default_rng(3).permutation(samples.reshape(-1))


def located(of: list[MemoryShard], chunk: Chunk) -> Located:
    found = Located(chunk, np.arange(len(of) + 1) * ROWS)
    found.shards = [of[number] for number in found.shard_numbers]
    return found


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the shards that are packed."""
    found = []
    real = gather_rows._packed

    def pack(columns: tuple[str, ...], batch: Batch) -> np.ndarray:
        found.append(num_rows(batch))
        return real(columns, batch)

    monkeypatch.setattr(gather_rows, "_packed", pack)
    return found


@pytest.mark.parametrize("count", [1, 3, 40])
def test_values_and_dtypes_are_the_same(count: int, packed: list[int]) -> None:
    of, chunk, columns = shards(count), shuffled(count), tuple(batch(0))
    packing_ = Packing(columns)
    for start in range(0, len(chunk), 2048):
        part = located(of, chunk[start : start + 2048])
        expected = gather_columns([part], columns)
        found = gather_columns([part], columns, packing=packing_)
        assert list(found) == list(expected)
        for name in columns:
            assert isinstance(found[name], np.ndarray)
            assert found[name].dtype == expected[name].dtype  # type: ignore[union-attr]
            np.testing.assert_array_equal(found[name], expected[name])
            found[name][:] = 0  # type: ignore[index]  # the reader's own
    assert packed == [ROWS] * count


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize(
    "outputs",
    [(("d", "a", "b", "c"),), (("d", "b"), "n", ("a", "b")), (("a", "n"), "b")],
    ids=["whole records", "parts of records", "several dtypes"],
)
def test_matrices_hold_the_packed_columns(
    outputs: tuple[Output, ...], count: int, packed: list[int]
) -> None:
    numbers = np.arange(ROWS * count, dtype=np.float32)
    values = {"a": numbers, "b": -numbers, "c": numbers / 2, "d": numbers * 3}
    columns = {**values, "n": numbers.astype(np.int64)}
    names = list(dict.fromkeys(chain.from_iterable(map(columns_of, outputs))))
    names += [name for name in "abcd" if name not in names]
    of = [
        MemoryShard({name: columns[name][ROWS * k : ROWS * (k + 1)] for name in columns})
        for k in range(count)
    ]
    chunk, packing_ = shuffled(count), Packing(sorted(names), outputs)
    part = located(of, chunk)
    found = gather_columns([part], sorted(names), packing=packing_)
    assert packed == [ROWS] * count
    for output in outputs:
        expected = np.stack([columns[name][chunk] for name in columns_of(output)], 1)
        if isinstance(output, str):
            assert np.array_equal(found[output], expected[:, 0])
        elif "n" in output:
            assert output_name(output) not in found
            assert all(np.array_equal(found[name], columns[name][chunk]) for name in output)
        else:
            assert np.array_equal(found[output_name(output)], expected)
            found[output_name(output)][:] = 0  # type: ignore[index]  # the reader's own


def test_nothing_is_packed_for_rows_in_order(packed: list[int]) -> None:
    part = located(shards(2), range(5, 2 * ROWS - 5))
    gather_columns([part], tuple(batch(0)), packing=Packing(tuple(batch(0))))
    assert packed == []


def test_nothing_is_packed_for_a_small_part_of_a_shard(packed: list[int]) -> None:
    few, more = (located(shards(1), shuffled(1)[: ROWS // 8 + extra]) for extra in (0, 1))
    gather_columns([few], tuple(batch(0)), packing=Packing(tuple(batch(0))))
    assert packed == []
    gather_columns([more], tuple(batch(0)), packing=Packing(tuple(batch(0))))
    assert packed == [ROWS]


@pytest.mark.parametrize(
    "values",
    [pa.array(["a"] * ROWS), np.array(["a"] * ROWS, object), np.zeros((ROWS, 100))],
    ids=["arrow", "objects", "large"],
)
def test_other_columns_are_not_packed(values: pa.Array | np.ndarray, packed: list[int]) -> None:
    shard = MemoryShard({**batch(0), "other": values})
    columns = tuple(shard.batch)
    part = located([shard], np.arange(ROWS)[::-1].copy())
    found = gather_columns([part], columns, packing=Packing(columns))
    assert found["n"].tolist() == list(range(ROWS))[::-1]  # type: ignore[union-attr]
    assert packed == []
