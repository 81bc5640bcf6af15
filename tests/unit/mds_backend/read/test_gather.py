"""Rows gathered from shards as records, by column, from packed shards, and as matrices."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kit.foreign import Encodings, foreign_dataset
from tests.kit.small_datasets import array_of, write_dataset

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, NullValueError
from mdstorm_backend.format import Batch, Column, Schema, as_arrow, num_rows
from mdstorm_backend.order import Chunk, ExactOrder
from mdstorm_backend.read import block as block_module
from mdstorm_backend.read import gather_rows, record_gather
from mdstorm_backend.read.block import Located
from mdstorm_backend.read.gather_rows import Gatherer, gather_columns
from mdstorm_backend.read.matrices import matrices_of, record_view, strips_of
from mdstorm_backend.read.shard import MemoryShard, Shard
from mdstorm_backend.read.stacking import Output, Stack, arranged, output_name

PAIR = array_of("short")
#: Fields and rows for four layouts: fixed-size columns, fixed-size columns with nulls,
#: a variable-size column, and arrays in two encodings.
LAYOUTS: dict[str, tuple[dict[str, Any], Callable[[int], tuple[Any, ...]]]] = {
    "fixed": (
        {"n": "long", "x": "float", "flag": "boolean", "pair": PAIR},
        lambda i: (i, i / 2, i % 3 == 0, [i, -i]),
    ),
    "nulls": (
        {"n": "long", "x": "float", "when": "timestamp", "pair": PAIR},
        lambda i: (
            i if i % 5 else None,
            i / 2 if i % 4 else None,
            i if i != 7 else None,
            [i, None if i % 2 else -i] if i != 3 else None,
        ),
    ),
    "variable": ({"n": "long", "word": "string"}, lambda i: (i, "x" * i if i % 7 else None)),
    "mixed": (
        {"n": "long", "list": array_of("integer")},
        lambda i: (i, [i, -i if i % 3 == 0 else None] if i < 10 else [i] * (i % 3)),
    ),
}


@pytest.fixture(params=LAYOUTS)
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    fields, row = LAYOUTS[request.param]
    columns = dict(zip(fields, zip(*map(row, range(20)), strict=True), strict=True))
    dataset = write_dataset(tmp_path, columns, fields, tasks=4)
    assert dataset.shard_sizes == (5, 5, 5, 5)
    return dataset


def located(shards: Sequence[Shard], bounds: np.ndarray, chunk: Chunk) -> Located:
    found = Located(chunk, bounds)
    found.shards = [shards[number] for number in found.shard_numbers]
    return found


def samples(dataset: Dataset, chosen: range, seed: int | None = None) -> Located:
    """Return consecutive samples, permuted if a seed is given."""
    chunk = chosen if seed is None else np.random.default_rng(seed).permutation(chosen)
    shards = [dataset.shard(number) for number in range(len(dataset.shard_sizes))]
    return located(shards, dataset.bounds, chunk)


def values(batch: Batch) -> dict[str, str]:
    return {name: repr(as_arrow(column).to_pylist()) for name, column in batch.items()}


@pytest.mark.matrix
@pytest.mark.parametrize("few_shards", [1, 16])
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
@pytest.mark.parametrize("exact_nulls", [False, True])
@pytest.mark.parametrize("seed", [None, 1])
def test_gathering_by_record_and_by_column_returns_equal_values(
    dataset: Dataset,
    seed: int | None,
    exact_nulls: bool,
    chunk_bytes: int,
    few_shards: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_gather, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(block_module, "FEW_SHARDS", few_shards)
    parts = [samples(dataset, some, seed) for some in (range(1, 5), range(6, 19), range(1))]
    fast = Gatherer(dataset.schema, exact_nulls=exact_nulls)(parts)
    plain = gather_columns(parts, dataset.schema.names, exact_nulls=exact_nulls)
    assert values(fast) == values(plain)
    for name, column in fast.items():
        assert isinstance(column, np.ndarray) is dataset.schema[name].is_numpy(
            exact_nulls=exact_nulls
        )
        assert as_arrow(column).type == as_arrow(plain[name]).type


def test_gathered_arrays_are_writable_copies(dataset: Dataset) -> None:
    parts = [samples(dataset, range(5))]
    gather = Gatherer(dataset.schema)
    first, second = gather(parts), gather(parts)
    for name, column in first.items():
        if isinstance(column, np.ndarray):
            assert column.flags.writeable
            assert not np.shares_memory(column, second[name])


def test_null_elements_read_back_from_a_column_with_two_array_encodings(tmp_path: Path) -> None:
    """The column has no fixed length, but all rows in the batch have the same length."""
    rows = [[1, None], [3, 4], [5]]
    dataset = write_dataset(tmp_path, {"a": rows}, {"a": array_of("long")}, batch_rows=2)
    assert dataset.schema["a"].length is None
    assert dataset.shard(0).record_dtype is not None
    batch = Gatherer(dataset.schema)([samples(dataset, range(2))])
    assert as_arrow(batch["a"]).to_pylist() == rows[:2]


@pytest.mark.parametrize("exact_nulls", [False, True])
def test_gathering_no_rows_returns_columns_with_the_same_types(
    dataset: Dataset, exact_nulls: bool
) -> None:
    gather = Gatherer(dataset.schema, exact_nulls=exact_nulls)
    nothing, something = gather([]), gather([samples(dataset, range(1))])
    assert list(nothing) == list(something)
    for name, column in nothing.items():
        assert len(column) == 0
        assert type(column) is type(something[name])
        assert as_arrow(column).type == as_arrow(something[name]).type
        if isinstance(column, np.ndarray):
            assert column.shape[1:] == something[name].shape[1:]


DTYPES = ["<f4", "<i4", "<i8", "<f8", "<u2", "|u1", "<M8[us]"]
SHAPES: list[tuple[int, ...]] = [(), (), (), (1,), (3,), (2, 2)]


@given(st.lists(st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES)), min_size=1), st.data())
def test_columns_packed_into_strips_equal_the_record_columns(
    columns: list[tuple[str, tuple[int, ...]]], data: st.DataObject
) -> None:
    dtype = np.dtype([(f"c{n}", *column) for n, column in enumerate(columns)])
    wanted = data.draw(st.lists(st.sampled_from(dtype.names), unique=True, min_size=1))
    content = np.random.default_rng(0).integers(0, 256, 11 * dtype.itemsize, np.uint8)
    records = content.view(f"V{dtype.itemsize}")  # unaligned, like the records in a shard
    strips = strips_of(dtype, {name: dtype[name].base for name in wanted})
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


def test_scalar_after_single_element_array_begins_a_new_strip() -> None:
    dtype = np.dtype([("a", "<f4"), ("b", "<f4", (1,)), ("c", "<f4"), ("d", "<i4"), ("e", "<i8")])
    strips = strips_of(dtype, {name: dtype[name].base for name in "abcde"})
    assert [[name for name, _ in strip.columns] for strip in strips] == [
        ["a"],
        ["b"],
        ["c", "d"],
        ["e"],
    ]


#: The number of rows in each in-memory shard or dataset, and the bounds of up to 40 such shards.
ROWS = 1000
BOUNDS = np.arange(41) * ROWS


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
    """Return the shuffled numbers of most samples in some shards."""
    samples = np.arange(count * ROWS).reshape(count, ROWS)[:, 5:-5]
    return np.random.default_rng(3).permutation(samples.reshape(-1))


def gatherer(columns: Sequence[str], outputs: Sequence[Output] = ()) -> Gatherer:
    """Return a gatherer of columns, whose encodings do not matter for decoded shards."""
    return Gatherer(Schema(tuple(Column(name, "int64") for name in columns)), outputs=outputs)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list of the row counts of packed shards, filled during the test."""
    found = []
    real = gather_rows._packed

    def pack(columns: tuple[str, ...], batch: Batch) -> np.ndarray:
        found.append(num_rows(batch))
        return real(columns, batch)

    monkeypatch.setattr(gather_rows, "_packed", pack)
    return found


@pytest.mark.parametrize("count", [1, 3, 40])
def test_packed_and_unpacked_shards_return_equal_values_and_dtypes(
    count: int, packed: list[int]
) -> None:
    of, chunk, columns = shards(count), shuffled(count), tuple(batch(0))
    gather = gatherer(columns)
    for start in range(0, len(chunk), 2048):
        part = located(of, BOUNDS, chunk[start : start + 2048])
        expected = gather_columns([part], columns)
        found = gather([part])
        assert list(found) == list(expected)
        for name in columns:
            assert isinstance(found[name], np.ndarray)
            assert found[name].dtype == expected[name].dtype  # type: ignore[union-attr]
            np.testing.assert_array_equal(found[name], expected[name])
            found[name][:] = 0  # type: ignore[index]  # the caller may change it
    assert packed == [ROWS] * count


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize(
    "outputs",
    [
        (Stack(("d", "a", "b", "c")),),
        (Stack(("d", "b")), "n", Stack(("a", "b"), "float32")),
        (Stack(("a", "n")), "b"),
        (Stack(("a", "c"), "float64"), "b"),
    ],
    ids=["whole records", "parts of records", "several dtypes", "another dtype"],
)
def test_matrices_contain_the_packed_columns(
    outputs: tuple[Output, ...], count: int, packed: list[int]
) -> None:
    numbers = np.arange(ROWS * count, dtype=np.float32)
    columns: dict[str, np.ndarray] = {"n": numbers.astype(np.int64)}
    columns |= {"a": numbers, "b": -numbers, "c": numbers / 2, "d": numbers * 3}
    names = sorted(columns)
    of = [
        MemoryShard({name: columns[name][ROWS * k : ROWS * (k + 1)] for name in columns})
        for k in range(count)
    ]
    chunk = shuffled(count)
    found: Any = gatherer(names, outputs)([located(of, BOUNDS, chunk)])
    assert packed == [ROWS] * count
    for output in outputs:
        if isinstance(output, str):
            assert np.array_equal(found[output], columns[output][chunk])
        elif output in (Stack(("a", "n")), Stack(("a", "c"), "float64")):
            assert output_name(output) not in found
            assert all(np.array_equal(found[name], columns[name][chunk]) for name in output.columns)
        else:
            expected = [columns[name][chunk] for name in output.columns]
            assert np.array_equal(found[output_name(output)], np.stack(expected, 1))
            found[output_name(output)][:] = 0  # the caller may change it


def test_shard_is_packed_once_enough_rows_are_read_out_of_order(
    packed: list[int],
) -> None:
    columns, samples = tuple(batch(0)), shuffled(1)
    chunks = (range(5, 2 * ROWS - 5), samples[: ROWS // 8], samples[: ROWS // 8 + 1])
    for chunk, expected in zip(chunks, ([], [], [ROWS]), strict=True):
        gatherer(columns)([located(shards(2), BOUNDS, chunk)])
        assert packed == expected


@pytest.mark.parametrize(
    "values",
    [pa.array(["a"] * ROWS), np.array(["a"] * ROWS, object), np.zeros((ROWS, 100))],
    ids=["arrow", "objects", "large"],
)
def test_unsuitable_columns_are_not_packed(
    values: pa.Array | np.ndarray, packed: list[int]
) -> None:
    shard = MemoryShard({**batch(0), "other": values})
    columns = tuple(shard.batch)
    part = located([shard], BOUNDS, np.arange(ROWS)[::-1].copy())
    found = gatherer(columns)([part])
    assert found["n"].tolist() == list(range(ROWS))[::-1]  # type: ignore[union-attr]
    assert packed == []


def test_shards_packed_with_different_dtypes_are_gathered_by_column(packed: list[int]) -> None:
    wide = {name: values.astype("i8") for name, values in batch(ROWS).items() if name != "day"}
    first = {name: values for name, values in batch(0).items() if name != "day"}
    of, chunk = [MemoryShard(first), MemoryShard(wide)], shuffled(2)
    gather = gatherer(tuple(first))
    for _ in range(2):
        found = gather([located(of, BOUNDS, chunk)])
        assert found["n"].tolist() == chunk.tolist()  # type: ignore[union-attr]
        assert as_arrow(found["half"]).to_pylist() == chunk.astype(np.float16).tolist()
    assert packed == [ROWS, ROWS]


@pytest.mark.parametrize("widths", [(3, 1), (1, 3), (3, 3)], ids=str)
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_arrays_whose_shapes_differ_between_decoded_shards_keep_their_shapes(
    widths: tuple[int, int], is_shuffled: bool
) -> None:
    values = [
        np.full((ROWS, width), ROWS * number) + np.arange(ROWS)[:, None]
        for number, width in enumerate(widths)
    ]
    chunk = shuffled(2) if is_shuffled else np.arange(2 * ROWS)
    of = located([MemoryShard({"n": each}) for each in values], BOUNDS, chunk)
    found = as_arrow(gather_columns([of], ["n"])["n"]).to_pylist()
    assert found == [[sample] * widths[sample // ROWS] for sample in chunk.tolist()]


#: Orders in which matrices are read.
ORDERS = [
    ExactOrder(),
    ExactOrder(seed=1, shuffle_shards=True),
    ExactOrder(seed=1, shuffle_rows=True),
    ExactOrder(seed=1, shuffle_shards=True, window=2 * ROWS),
]


def test_matrix_of_all_columns_in_record_order_copies_whole_records(tmp_path: Path) -> None:
    fields = dict.fromkeys("abcdef", "integer")
    dataset = write_dataset(tmp_path / "data", dict.fromkeys("abcdef", range(5)), fields)
    shard: Any = dataset.shard(0)
    wanted = dict.fromkeys("abcdef", np.dtype(np.int32))
    for names, is_whole in (("abcdef", True), ("bcdef", False), ("abcdfe", False)):
        (matrix,), _ = matrices_of(shard.record_dtype, wanted, [Stack(tuple(names))])
        assert matrix.is_whole(shard.record_dtype) == is_whole


@pytest.mark.parametrize("order", ORDERS)
def test_matrices_from_shards_with_different_encodings_have_a_common_type(
    order: ExactOrder, tmp_path: Path
) -> None:
    """One shard has a different dtype, and one has its columns in a different order."""
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


def test_matrices_with_different_dtypes_contain_the_same_values(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"x": [0.5, -1.5], "n": [1, 1 << 52], "flag": [True, False]}
    fields = {"x": "float", "n": "long", "flag": "boolean"}
    dataset = write_dataset(tmp_path / "data", columns, fields)
    for names, stack, dtype in (
        (["x", "n"], True, np.float64),
        (["flag", "x"], True, np.float32),
        (["n", "flag"], np.uint64, np.uint64),
        (["flag"], "int8", np.int8),
    ):
        (found,) = dataset.batches(2, columns=names, stack=stack)
        assert found.dtype == dtype
        assert found.tolist() == [[columns[name][row] for name in names] for row in (0, 1)]
    with pytest.raises(ArgumentTypeError, match="stack must be True, False or the name"):
        dataset.batches(2, columns=["x"], stack=3)  # type: ignore[call-overload]


@given(
    values=st.lists(st.integers(-(1 << 63), (1 << 64) - 1), min_size=1, max_size=5),
    target=st.sampled_from(["float16", "float32", "float64", "int32", "int64", "uint64", "bool"]),
)
@example(values=[-(1 << 63)], target="float64")
@example(values=[(1 << 63) - 1], target="float64")
@example(values=[(1 << 64) - 1], target="int64")
@example(values=[(1 << 53) + 2, (1 << 24) + 1], target="float64")
@example(values=[1 << 16], target="float16")
def test_stacked_integers_stay_equal_or_raise_error(values: list[int], target: str) -> None:
    dtype = np.int64 if max(values) < 1 << 63 else np.uint64
    values = [value for value in values if dtype == np.int64 or value >= 0]
    column = np.array(values, dtype)
    is_float = np.dtype(target).kind == "f"
    limits = None if is_float or target == "bool" else np.iinfo(target)
    fits = [
        abs(v) <= float(np.finfo(target).max) and int(float(np.dtype(target).type(v))) == v
        if is_float
        else v in (0, 1)
        if limits is None
        else limits.min <= v <= limits.max
        for v in values
    ]
    output = Stack(("n",), target)
    if all(fits):
        matrix: Any = arranged({"n": column}, [output])[output_name(output)]
        assert (matrix.dtype, matrix[:, 0].tolist()) == (np.dtype(target), values)
        return
    with pytest.raises(InvalidArgumentError, match=f"value {values[fits.index(False)]}, which"):
        arranged({"n": column}, [output])


@pytest.mark.parametrize(
    ("value", "target", "fits"),
    [
        (0.1, "float32", True),
        (np.nan, "float16", True),
        (-np.inf, "float16", True),
        (65505.0, "float16", False),
        (1e300, "float32", False),
        (3.0, "int64", True),
        (2.0**63, "int64", False),
        (-(2.0**63), "int64", True),
        (2.0**64, "uint64", False),
        (-1.0, "uint8", False),
        (0.5, "int64", False),
        (np.nan, "int64", False),
        (1.0, "bool", True),
        (2.0, "bool", False),
    ],
)
def test_stacked_floats_are_rounded_or_raise_error_if_they_do_not_fit(
    value: float, target: str, fits: bool
) -> None:
    output, column = Stack(("x",), target), np.array([1.0, value])
    if fits:
        matrix: Any = arranged({"x": column}, [output])[output_name(output)]
        np.testing.assert_array_equal(matrix[:, 0], column.astype(target))
        return
    with pytest.raises(
        InvalidArgumentError, match=f"'x' has the value {re.escape(str(value))}, wh"
    ):
        arranged({"x": column}, [output])


def test_stacking_unsuitable_columns_raises_error_with_the_reason(tmp_path: Path) -> None:
    columns = {"x": [0.5, 1.5], "n": [1, None], "pair": [[1.0], [3.0, 4.0]]}
    fields = {"x": "float", "n": "long", "pair": array_of("float")}
    dataset = write_dataset(tmp_path / "data", columns, fields)
    with pytest.raises(InvalidArgumentError, match="column 'pair' has array<float> values"):
        list(dataset.batches(2, columns=["x", "pair"], stack=True))
    with pytest.raises(NullValueError, match=r"columns 'n' \(1\) hold nulls"):
        list(dataset.batches(2, columns=["n"], stack=True))
    with pytest.raises(InvalidArgumentError, match="not format='arrow'"):
        dataset.batches(2, columns=["x"], format="arrow", stack=True)  # type: ignore[call-overload]
