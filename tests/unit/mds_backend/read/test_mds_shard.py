"""Single samples have batch types for columns with Spark types, and stored types otherwise."""

import gc
import json
import pickle
import struct
import weakref
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from tests.kit.foreign import URL, foreign_shard, shard_bytes, shard_info, variable
from tests.kit.small_datasets import array_of, write_dataset
from tests.kit.strategies import Data, data, moderate

from mdstorm_backend.errors import (
    ArgumentTypeError,
    CorruptDatasetError,
    UnsupportedEncodingError,
)
from mdstorm_backend.format.encodings.numbers import ARRAY_CODES, DTYPES
from mdstorm_backend.format.layout import Validity
from mdstorm_backend.format.values.batch import as_arrow
from mdstorm_backend.read.batch_formats import column_to_numpy, to_numpy
from mdstorm_backend.read.mds_shard import MDSShard


def of_batch(shard: MDSShard, row: int, columns: Sequence[str]) -> dict[str, Any]:
    """One row of some columns, read as a single-row batch."""
    batch = shard.read(np.array([row]), columns, exact_nulls=True)
    sample = {}
    for name, values in batch.items():
        column = shard.schema[name]
        if isinstance(values, np.ndarray):
            sample[name] = values[0]
        elif column.is_array and not column.element_null_count:
            sample[name] = column_to_numpy(values, column)[0]
        else:
            sample[name] = values[0].as_py()
    return sample


def identity(value: Any) -> Any:
    """Return a key that is the same for equal values of any type."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes(), value.flags.writeable
    return type(value), repr(value)


def identities(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: identity(value) for name, value in sample.items()}


@moderate
@given(data(min_rows=1, max_rows=8), st.randoms(use_true_random=False))
def test_sample_with_spark_types_equals_a_row_of_a_batch(given_: Data, random: Any) -> None:
    with TemporaryDirectory() as directory:
        dataset = write_dataset(directory, given_.table, given_.fields)
        shard = dataset.shard(0)
        names = random.sample(given_.table.column_names, random.randint(1, len(given_.fields)))
        for row in range(shard.num_samples):
            for columns in (None, names):
                sample = shard.sample(row, columns)
                expected = of_batch(shard, row, columns or dataset.schema.names)
                assert list(sample) == list(expected)
                assert identities(sample) == identities(expected)


def test_sample_of_fixed_size_contains_nulls_in_arrays(tmp_path: Path) -> None:
    columns = {"x": [[1, None, 3], [4, 5, 6]], "y": [7, 8]}
    shard = write_dataset(tmp_path, columns, {"x": array_of("integer"), "y": "long"}).shard(0)
    assert shard.sample(0) == {"x": [1, None, 3], "y": 7}
    assert shard.sample(1) == {"x": [4, 5, 6], "y": 8}


CODES = {name: code for code, name in ARRAY_CODES.items()}
TEXTS = {"json": json.dumps, "pkl": pickle.dumps, "int": struct.Struct("<q").pack}


def stored(encoding: str, value: Any, width: int) -> bytes:
    """Encode a value by hand; each dimension of an array takes ``2 ** width`` bytes."""
    if isinstance(value, np.ndarray):
        shape = struct.pack(f"<{value.ndim}" + "BHIQ"[width], *value.shape)
        start = b"" if encoding.count(":") == 2 else bytes([value.ndim << 2 | width]) + shape
        code = bytes([CODES[value.dtype.name]]) if encoding == "ndarray" else b""
        return code + start + value.tobytes()
    if isinstance(value, np.generic):
        return value.tobytes()
    found = value if isinstance(value, bytes) else TEXTS.get(encoding, str)(value)
    return found if isinstance(found, bytes) else found.encode()


#: Encodings that store single Python values.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(1 << 63), (1 << 63) - 1),
    "bytes": st.binary(max_size=5),
    "str": st.text(max_size=5),
    "json": st.none() | st.lists(st.text(max_size=3) | st.integers(), max_size=3),
    "pkl": st.none() | st.tuples(st.integers(), st.text(max_size=3)),
    "str_int": st.integers(),
    "str_float": st.floats(),
    "str_decimal": st.decimals(allow_nan=False),
}


#: Shapes of arrays in columns with any number of dimensions, with two, and with one.
SHAPES: list[st.SearchStrategy[tuple[int, ...]]] = [
    array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
    array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=3),
    st.sampled_from([(0,), (1,), (3,), (300,)]),
]


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[str, int | None, list[Any]]:
    """Draw an encoding, the size of its values, and three values."""
    kind = draw(st.sampled_from([*VALUES, "scalar", "ndarray", "ndarray:", "ndarray::"]))
    if kind in VALUES:
        values = draw(st.lists(VALUES[kind], min_size=3, max_size=3))
        return kind, 8 if kind == "int" else None, values
    name = draw(st.sampled_from(sorted(DTYPES)))
    dtype = np.dtype(name)
    if kind == "scalar":
        numbers = draw(st.lists(st.integers(0, 100), min_size=3, max_size=3))
        return name, dtype.itemsize, [dtype.type(n) for n in numbers]
    if kind == "ndarray::":
        shape = draw(array_shapes(max_dims=3, max_side=3))
        text = f"ndarray:{name}:{','.join(map(str, shape))}"
        return text, int(np.prod(shape)) * dtype.itemsize, [np.full(shape, n, name) for n in "123"]
    shapes = draw(st.sampled_from(SHAPES))
    dtypes = [name, name, draw(st.sampled_from([name, "int8"])) if kind == "ndarray" else name]
    arrays = [np.full(draw(shapes), number, dtype) for number, dtype in enumerate(dtypes)]
    return kind if kind == "ndarray" else f"ndarray:{name}", None, arrays


def encoded_shard(columns: list[tuple[str, int | None, list[Any]]]) -> MDSShard:
    """Encode three samples by hand, and return a shard that contains them."""
    names = [f"c{i}" for i in range(len(columns))]
    encodings = {n: (e, size) for n, (e, size, _) in zip(names, columns, strict=True)}
    samples = []
    for row in range(3):
        values = [stored(encoding, values[row], row + 1) for encoding, _, values in columns]
        sizes = [len(v) for v, (_, size, _) in zip(values, columns, strict=True) if size is None]
        samples.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
    return foreign_shard(samples, encodings, allow_unsafe_types=True)


@given(st.lists(typed_values(), min_size=1, max_size=5))
def test_sample_without_spark_types_equals_the_encoded_value(
    columns: list[tuple[str, int | None, list[Any]]],
) -> None:
    shard = encoded_shard(columns)
    names = list(shard.layout.names)
    for row in range(3):
        expected = {n: identity(v[row]) for n, (_, _, v) in zip(names, columns, strict=True)}
        sample = shard.sample(row)
        assert identities(sample) == expected
        backwards = shard.sample(row, names[::-1])
        assert list(backwards) == names[::-1]
        assert identities(backwards) == expected


def plain(value: Any) -> str:
    return repr(value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)


@given(
    st.lists(typed_values(), min_size=1, max_size=5), st.sampled_from([[0, 1, 2], [1], [0, 2], []])
)
def test_batch_contains_the_values_of_its_samples(
    columns: list[tuple[str, int | None, list[Any]]], rows: list[int]
) -> None:
    shard = encoded_shard(columns)
    batch = to_numpy(shard.read(np.array(rows, np.int64), shard.schema.names), shard.schema)
    for name, values in batch.items():
        assert len(values) == len(rows)
        for row, value in zip(rows, values, strict=True):
            sample = shard.sample(row)[name]
            assert plain(value) == plain(sample)
            if isinstance(sample, np.ndarray):
                assert (value.dtype, value.shape) == (sample.dtype, sample.shape)


@pytest.mark.parametrize("row", [-1, 2, 1 << 40])
@pytest.mark.parametrize("encoding", [("int8", 1), ("str", None)])
def test_sample_number_outside_the_shard_raises_index_error(
    row: int, encoding: tuple[str, int | None]
) -> None:
    samples = [b"\x01", b"\x02"] if encoding[1] else [struct.pack("<I", 1) + b"a"] * 2
    shard = foreign_shard(samples, {"a": encoding})
    with pytest.raises(IndexError, match=f"sample {row} of 2"):
        shard.sample(row)


def test_unknown_column_raises_error_listing_the_shards_columns() -> None:
    shard = foreign_shard([b"\x01"], {"a": ("int8", 1)})
    message = r"no columns \['b'\]; its dataset has \['a'\]"
    with pytest.raises(ArgumentTypeError, match=message):
        shard.sample(0, ["a", "b"])
    with pytest.raises(ArgumentTypeError, match=message):
        shard.read(np.array([0]), ["b"])


DAMAGED: dict[str, tuple[str, bytes]] = {
    "not utf-8": ("str", b"\xff"),
    "no integer": ("str_int", b"x"),
    "no float": ("str_float", b""),
    "no array": ("ndarray", b""),
    "array of a huge shape": ("ndarray:int8", b"\x07" + b"\xff" * 8),
    "unknown dtype": ("ndarray", b"\x07\x04\x01\x00"),
}


@pytest.mark.parametrize(("encoding", "value"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_value_raises_error_naming_the_shard(encoding: str, value: bytes) -> None:
    sample = struct.pack("<I", len(value)) + value
    shard = foreign_shard([sample], {"a": (encoding, None)})
    with pytest.raises(CorruptDatasetError, match=r"x\.mds") as caught:
        shard.sample(0)
    assert caught.value.url == shard.url


@pytest.mark.parametrize("sizes", [(1, 1), (0, 0), (1 << 31, 2), ((1 << 32) - 1, 3)])
def test_sample_sizes_that_do_not_add_up_raise_error(sizes: tuple[int, int]) -> None:
    shard = foreign_shard(
        [struct.pack("<2I", *sizes) + b"abc"], {"a": ("str", None), "b": ("bytes", None)}
    )
    for decode in (lambda: shard.sample(0), lambda: shard.read(np.array([0]), ["a"])):
        with pytest.raises(CorruptDatasetError, match="do not add up"):
            decode()


def test_shard_is_freed_immediately_after_samples_are_read(tmp_path: Path) -> None:
    dataset = write_dataset(
        tmp_path, {"a": [1, None], "b": [["x"], None]}, {"a": "long", "b": array_of("string")}
    )
    info = dataset.index.shards[0]
    content = (tmp_path / info.raw_data.basename).read_bytes()
    shard = MDSShard(content, info, dataset.schema, url="x.mds")
    shard.sample(0)
    shard.sample(1, ["a"])
    reference = weakref.ref(shard)
    gc.disable()
    try:
        del shard
        assert reference() is None
    finally:
        gc.enable()


def test_decimal_with_fewer_decimal_places_than_its_type_raises_error(tmp_path: Path) -> None:
    shard = write_dataset(tmp_path, {"a": [Decimal("1.50")]}, {"a": "decimal(5,2)"}).shard(0)
    content = shard_bytes([variable(b"1.5")])
    info = shard_info(content, {"a": ("str_decimal", None)}, 1, "x.mds")
    with pytest.raises(CorruptDatasetError, match="does not have 2 decimal places"):
        MDSShard(content, info, shard.schema, url=URL).sample(0)


def test_columns_that_cannot_be_decoded_are_skipped() -> None:
    samples = [
        b"\x05\0\0\0\x02\0\0\0" + b"\x01" + b"photo" + b"hi",
        b"\x00\0\0\0\x01\0\0\0" + b"\x02" + b"" + b"!",
    ]
    shard = foreign_shard(samples, {"a": ("int8", 1), "b": ("webp", None), "c": ("str", None)})
    batch = shard.read(np.arange(2), ["c", "a"])
    assert as_arrow(batch["c"]).to_pylist() == ["hi", "!"]
    assert as_arrow(batch["a"]).to_pylist() == [1, 2]
    assert shard.sample(1, ["c", "a"]) == {"c": "!", "a": 2}
    for decode in (lambda: shard.read(np.arange(2), ["a", "b"]), lambda: shard.sample(0)):
        with pytest.raises(UnsupportedEncodingError, match="column 'b' has encoding 'webp'"):
            decode()


def test_shard_without_samples_is_read() -> None:
    for encodings in ({"a": ("int8", 1)}, {"a": ("str", None)}):
        shard = foreign_shard([], encodings)  # type: ignore[arg-type]
        assert shard.num_samples == 0
        assert len(shard.read(np.empty(0, np.int64), ["a"])["a"]) == 0


def test_sample_count_that_contradicts_the_index_raises_error() -> None:
    with pytest.raises(CorruptDatasetError, match=r"samples of 1 bytes .* 3 bytes of samples"):
        foreign_shard([b"\x01", b"\x02\x03"], {"a": ("int8", 1)})


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_bitmap_with_a_wrong_element_count_raises_error(tmp_path: Path, count: int) -> None:
    rows, fields = {"a": [[1], [None]], "b": ["x", "y"]}, {"a": array_of("short"), "b": "string"}
    dataset = write_dataset(tmp_path, rows, fields)
    content = shard_bytes(
        [variable(b"\x04\x01\x01\x00", b"x"), variable(b"\x04\x01\x00\x00", b"y")]
    )
    info = shard_info(content, {"a": ("ndarray:int16", None), "b": ("str", None)}, 2, "x.mds")
    shard = MDSShard(content, info, dataset.schema, url=URL)
    shard.validity = Validity({}, {"a": np.ones(count, np.bool_)})
    for _ in range(2):
        with pytest.raises(CorruptDatasetError, match=f"has a wrong length, {count}"):
            shard.read(np.array([1]), ["a"])
    shard.validity = Validity({}, {"a": np.array([True, False])})
    assert as_arrow(shard.read(np.array([1]), ["a"])["a"]).to_pylist() == [[None]]
