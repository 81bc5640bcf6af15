from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.small_datasets import array_of, write_dataset

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.format.values.batch import Batch, as_arrow
from mdstorm_backend.read import block as block_module
from mdstorm_backend.read import record_gather
from mdstorm_backend.read.block import Located
from mdstorm_backend.read.gather_rows import Gatherer, gather_columns
from mdstorm_backend.read.matrices import record_view, strips_of

#: Four layouts: all fixed, fixed with nulls, with a variable-size column, arrays in two forms.
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "fixed": (
        {"n": "long", "x": "float", "flag": "boolean", "pair": array_of("short")},
        {
            "n": list(range(20)),
            "x": [i / 2 for i in range(20)],
            "flag": [i % 3 == 0 for i in range(20)],
            "pair": [[i, -i] for i in range(20)],
        },
    ),
    "nulls": (
        {"n": "long", "x": "float", "when": "timestamp", "pair": array_of("short")},
        {
            "n": [None if i % 5 == 0 else i for i in range(20)],
            "x": [None if i % 4 == 0 else i / 2 for i in range(20)],
            "when": [None if i == 7 else i for i in range(20)],
            "pair": [None if i == 3 else [i, None if i % 2 else -i] for i in range(20)],
        },
    ),
    "variable": (
        {"n": "long", "word": "string"},
        {"n": list(range(20)), "word": [None if i % 7 == 0 else "x" * i for i in range(20)]},
    ),
    "mixed": (
        {"n": "long", "list": array_of("integer")},
        {
            "n": list(range(20)),
            "list": [
                *([i, None if i % 3 else -i] for i in range(10)),
                *([i] * (i % 3) for i in range(10)),
            ],
        },
    ),
}


@pytest.fixture(params=LAYOUTS)
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    fields, rows = LAYOUTS[request.param]
    dataset = write_dataset(tmp_path, rows, fields, tasks=4)
    assert dataset.shard_sizes == (5, 5, 5, 5)
    return dataset


def located(dataset: Dataset, samples: range, seed: int | None = None) -> Located:
    """Consecutive samples, permuted or not."""
    chunk = samples if seed is None else np.random.default_rng(seed).permutation(samples)
    found = Located(chunk, dataset.bounds)
    found.shards = [dataset.shard(number) for number in found.shard_numbers]
    return found


def values(batch: Batch) -> dict[str, str]:
    return {name: repr(as_arrow(column).to_pylist()) for name, column in batch.items()}


@pytest.mark.parametrize("few_shards", [1, 16])
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
@pytest.mark.parametrize("exact_nulls", [False, True])
@pytest.mark.parametrize("seed", [None, 1])
def test_both_ways_of_gathering_agree(
    dataset: Dataset,
    seed: int | None,
    exact_nulls: bool,
    chunk_bytes: int,
    few_shards: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_gather, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(block_module, "_FEW_SHARDS", few_shards)
    parts = [located(dataset, some, seed) for some in (range(1, 5), range(6, 19), range(1))]
    fast = Gatherer(dataset.schema, exact_nulls=exact_nulls)(parts)
    plain = gather_columns(parts, dataset.schema.names, exact_nulls=exact_nulls)
    assert values(fast) == values(plain)
    for name, column in fast.items():
        assert isinstance(column, np.ndarray) is dataset.schema[name].is_numpy(
            exact_nulls=exact_nulls
        )
        assert as_arrow(column).type == as_arrow(plain[name]).type


def test_gathered_arrays_are_writable_and_of_their_own(dataset: Dataset) -> None:
    parts = [located(dataset, range(5))]
    gather = Gatherer(dataset.schema)
    first, second = gather(parts), gather(parts)
    for name, column in first.items():
        if isinstance(column, np.ndarray):
            assert column.flags.writeable
            assert not np.shares_memory(column, second[name])


def test_one_form_of_arrays_keeps_null_elements_beside_another_form(tmp_path: Path) -> None:
    """The column has no common length, but the rows at hand have one."""
    rows = [[1, None], [3, 4], [5]]
    dataset = write_dataset(tmp_path, {"a": rows}, {"a": array_of("long")}, batch_rows=2)
    assert dataset.schema["a"].length is None
    assert dataset.shard(0).record_dtype is not None
    batch = Gatherer(dataset.schema)([located(dataset, range(2))])
    assert as_arrow(batch["a"]).to_pylist() == rows[:2]


@pytest.mark.parametrize("exact_nulls", [False, True])
def test_no_rows_have_the_types_of_some_rows(dataset: Dataset, exact_nulls: bool) -> None:
    gather = Gatherer(dataset.schema, exact_nulls=exact_nulls)
    nothing, something = gather([]), gather([located(dataset, range(1))])
    assert list(nothing) == list(something)
    for name, column in nothing.items():
        assert len(column) == 0
        assert type(column) is type(something[name])
        assert as_arrow(column).type == as_arrow(something[name]).type
        if isinstance(column, np.ndarray):
            assert column.shape[1:] == something[name].shape[1:]


DTYPES = ["<f4", "<i4", "<i8", "<f8", "<u2", "|u1", "<M8[us]"]
SHAPES: list[tuple[int, ...]] = [(), (), (), (1,), (3,), (2, 2)]

fields = st.lists(st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES)), min_size=1)


def record(*columns: tuple[str, tuple[int, ...]]) -> np.dtype[np.void]:
    return np.dtype([(f"c{n}", dtype, shape) for n, (dtype, shape) in enumerate(columns)])


def bases(dtype: np.dtype[np.void], names: list[str]) -> dict[str, np.dtype[Any]]:
    return {name: dtype[name].base for name in names}


@given(fields, st.data())
def test_strips_hold_what_the_columns_of_the_records_hold(
    columns: list[tuple[str, tuple[int, ...]]], data: st.DataObject
) -> None:
    dtype = record(*columns)
    wanted = data.draw(st.lists(st.sampled_from(dtype.names), unique=True, min_size=1))
    content = np.random.default_rng(0).integers(0, 256, 11 * dtype.itemsize, np.uint8)
    records = content.view(f"V{dtype.itemsize}")  # no shard is aligned
    strips = strips_of(dtype, bases(dtype, wanted))
    seen = records.view(record_view(dtype, strips))

    found: dict[str, Any] = {}
    for strip in strips:
        memory = strip.empty(11)
        for start, stop in [(0, 4), (4, 11)]:
            strip.fill(memory, slice(start, stop), seen[start:stop])
        found.update(strip.split(memory))

    assert found.keys() == set(wanted)
    for name, values in found.items():
        expected = records.view(dtype)[name]
        assert values.dtype == expected.dtype
        assert values.shape == expected.shape
        assert values.tobytes() == expected.tobytes()
        assert values.flags.c_contiguous
        assert values.flags.writeable
