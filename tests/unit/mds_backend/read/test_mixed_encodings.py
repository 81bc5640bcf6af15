"""Shards that store a column in a different encoding than their neighbours."""

import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from tests.kit.foreign import Encodings, foreign_dataset, variable
from tests.unit.mds_backend.read.readers import batches, exact

from mdstorm_backend import open_dataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import UnsafeTypeError, UnsupportedEncodingError
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.batch_formats import column_to_numpy

Shard = tuple[list[bytes], Encodings]
PICKLE = pickle.dumps(["b"])


def fixed(encoding: str, *values: Any) -> Shard:
    """A shard of scalars or equally shaped arrays."""
    dtype = np.dtype(
        "<i8" if encoding == "int" else encoding.split(":")[-2 if ":" in encoding else 0]
    )
    samples = [np.array(value, dtype).tobytes() for value in values]
    return samples, {"x": (encoding, len(samples[0]))}


def texts(encoding: str, *values: str | bytes) -> Shard:
    stored = [value if isinstance(value, bytes) else value.encode() for value in values]
    return [variable(value) for value in stored], {"x": (encoding, None)}


def ragged(dtype: str, *values: Any) -> Shard:
    arrays = [np.array(value, dtype) for value in values]
    stored = [bytes([a.ndim << 2, *a.shape]) + a.tobytes() for a in arrays]
    return [variable(value) for value in stored], {"x": (f"ndarray:{dtype}", None)}


def image(format_: str, grey: int) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (8, 8), grey).save(stream, format_)
    return stream.getvalue()


CASES: dict[str, tuple[list[Shard], Any, Any]] = {
    # shards, NumPy batch dtype, batch values
    "integers": ([fixed("int32", 1, 2), fixed("int64", 1 << 40)], "int64", [1, 2, 1 << 40]),
    "signs": ([fixed("uint8", 255), fixed("int8", -1)], "int16", [255, -1]),
    "python integers": ([fixed("int", 5), fixed("int16", -1)], "int64", [5, -1]),
    "floats": ([fixed("float16", 0.5), fixed("float64", 0.1)], "float64", [0.5, 0.1]),
    "integers and text": ([fixed("int16", 7), texts("str_int", "8")], "int64", [7, 8]),
    "floats and text": ([texts("str_float", "0.1"), fixed("float32", 2)], "float64", [0.1, 2.0]),
    "text and bytes": ([texts("str", "a"), texts("bytes", b"\xff")], "object", [b"a", b"\xff"]),
    "images": ([texts("png", image("PNG", 3)), texts("jpeg", image("JPEG", 3))], "uint8",
               np.full((2, 8, 8), 3).tolist()),
}  # fmt: skip

ARRAYS: dict[str, tuple[list[Shard], list[Any]]] = {
    "lengths": ([fixed("ndarray:int16:2", [1, 2]), fixed("ndarray:int16:1", [3])], ["int16"] * 2),
    "fixed and ragged": ([fixed("ndarray:int16:2", [1, 2]), ragged("int16", [3])], ["int16"] * 2),
    "dimensions": (
        [fixed("ndarray:int16:1,2", [[1, 2]]), fixed("ndarray:int16:2", [3, 4])],
        ["int16"] * 2,
    ),
    "dtypes": ([ragged("int16", [1, 2]), ragged("float32", [3])], ["int16", "float32"]),
    "dtypes of fixed": (
        [fixed("ndarray:int16:2", [1, 2]), fixed("ndarray:int64:2", [3, 4])],
        ["int16", "int64"],
    ),
}


ORDERS = [ExactOrder(), ExactOrder(seed=1, shuffle_shards=True, window=100, shuffle_rows=True)]


@pytest.mark.parametrize("name", CASES)
def test_scalars_with_mixed_encodings_get_their_common_type(name: str, tmp_path: Path) -> None:
    shards, dtype, values = CASES[name]
    dataset = foreign_dataset(tmp_path, shards)
    for batch_size in (1, 2, 100):
        parts = [batch["x"] for batch in dataset.batches(batch_size)]
        assert {part.dtype.name for part in parts} == {dtype}
        assert [v for part in parts for v in part.tolist()] == values
    # Each block has one shard, whose record layout no other shard has.
    single = batches(exact(dataset, batch_size=1, block_rows=1))
    assert {column_to_numpy(b["x"], dataset.schema["x"]).dtype.name for b in single} == {dtype}
    for order in ORDERS:
        (batch,) = dataset.batches(100, order=order)
        assert sorted(batch["x"].tolist()) == sorted(values)
    assert dataset.to_table().num_rows == len(values)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("batch_size", [1, 100])
def test_arrays_with_mixed_encodings_keep_their_dtypes_and_shapes(
    name: str, batch_size: int, tmp_path: Path
) -> None:
    shards, dtypes = ARRAYS[name]
    dataset = foreign_dataset(tmp_path, shards)
    samples = [dataset[i]["x"] for i in range(len(dataset))]
    found = [row for batch in dataset.batches(batch_size) for row in batch["x"]]
    for sample, row, dtype in zip(samples, found, dtypes, strict=True):
        assert sample.dtype == row.dtype == dtype
        assert sample.tolist() == row.tolist()


def test_sample_is_decoded_with_its_shards_encoding(tmp_path: Path) -> None:
    shards = [fixed("int32", 1), fixed("int64", 2), texts("str", "a"), texts("pkl", PICKLE)]
    dataset = foreign_dataset(tmp_path, shards)
    samples = [dataset[i]["x"] for i in range(3)]
    assert [type(sample) for sample in samples] == [np.int32, np.int64, str]
    assert samples == [1, 2, "a"]
    with pytest.raises(UnsafeTypeError, match=r"'x' .* contains pickles.*allow_unsafe_types=True"):
        dataset[3]
    assert open_dataset(str(tmp_path), allow_unsafe_types=True)[3]["x"] == ["b"]


def test_batches_with_encodings_without_common_type_raise_error(tmp_path: Path) -> None:
    shards: list[Shard] = []
    for samples, encodings in (fixed("int32", 1), texts("str", "a")):
        shards.append(([sample + b"\5" for sample in samples], {**encodings, "y": ("int8", 1)}))
    dataset = foreign_dataset(tmp_path, shards)
    with pytest.raises(UnsupportedEncodingError, match=r"'x' is stored in shards as int32 and str"):
        list(dataset.batches(1))
    (batch,) = dataset.batches(10, columns=["y"])
    assert batch["y"].tolist() == [5, 5]


def test_shards_with_columns_in_a_different_order_are_read_by_name(tmp_path: Path) -> None:
    shards: list[Shard] = [
        ([struct.pack("<bh", 1, 2)], {"a": ("int8", 1), "b": ("int16", 2)}),
        ([struct.pack("<hb", 4, 3)], {"b": ("int16", 2), "a": ("int8", 1)}),
    ]
    dataset: Dataset = foreign_dataset(tmp_path, shards)
    assert dataset.to_table().to_pydict() == {"a": [1, 3], "b": [2, 4]}
    assert [dict(dataset[i]) for i in range(2)] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert dataset.to_table().schema.types == [pa.int8(), pa.int16()]
