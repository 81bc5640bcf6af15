"""Columns with no Spark type, in every adapter."""

import io
import json
import pickle
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import torch
from PIL import Image
from tests.kit.foreign import foreign_dataset, variable
from tests.kit.loaders import torch_loader
from tests.unit.mds_backend.read.readers import batches, exact

from mdstorm_backend import (
    Dataset,
    ExactOrder,
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)
from mdstorm_backend.errors import (
    CorruptDatasetError,
    NullValueError,
    UnsafeTypeError,
    UnsupportedTypeError,
)
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders.tf import make_tf_dataset
from mdstorm_backend.maintenance import head, verify


def png(width: int, height: int, grey: int, mode: str = "L") -> bytes:
    stream = io.BytesIO()
    Image.new("L", (width, height), grey).convert(mode).save(stream, "PNG")
    return stream.getvalue()


def array(values: np.ndarray, *, code: int | None = None) -> bytes:
    start = b"" if code is None else bytes([code])
    shape = bytes([values.ndim << 2, *values.shape])
    return start + shape + values.tobytes()


def write(directory: Path, encoding: str, *shards: list[bytes], **options: bool) -> Dataset:
    """Write a dataset with one variable-size column."""
    samples = [[variable(value) for value in shard] for shard in shards]
    return foreign_dataset(directory, [(s, {"x": (encoding, None)}) for s in samples], **options)


def as_numpy(dataset: Dataset) -> Any:
    (batch,) = dataset.batches(100)
    return batch["x"]


def as_torch(dataset: Dataset) -> Any:
    (batch,) = torch_loader(dataset, batch_size=100)
    return batch["x"]


def as_tf(dataset: Dataset) -> Any:
    options = ReaderOptions(dataset, ExactOrder().resolved())
    (batch,) = make_tf_dataset(lambda: options, batch_size=100)
    return batch.x


def test_images_of_the_same_shape_are_one_tensor(tmp_path: Path) -> None:
    dataset = write(tmp_path, "png", [png(3, 2, 7), png(3, 2, 8)], [png(3, 2, 9)])
    expected = np.array([7, 8, 9], np.uint8).reshape(3, 1, 1) + np.zeros((3, 2, 3), np.uint8)
    np.testing.assert_array_equal(as_numpy(dataset), expected)
    found = as_torch(dataset)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.uint8
    np.testing.assert_array_equal(found.numpy(), expected)
    found = as_tf(dataset)
    assert found.dtype == tf.uint8
    np.testing.assert_array_equal(found.numpy(), expected)


def test_images_of_different_shapes_are_a_list_of_tensors(tmp_path: Path) -> None:
    dataset = write(tmp_path, "png", [png(3, 2, 7), png(1, 1, 8, "RGB")])
    assert [image.shape for image in as_numpy(dataset)] == [(2, 3), (1, 1, 3)]
    found = as_torch(dataset)
    assert [tuple(image.shape) for image in found] == [(2, 3), (1, 1, 3)]
    with pytest.raises(UnsupportedTypeError, match=r"'x'.*uint8\[1, 1, 3\], uint8\[2, 3\]"):
        list(make_specs(dataset))


def make_specs(dataset: Dataset) -> Any:
    """Convert to TensorFlow directly, because a `tf.data` generator would wrap the error."""
    from mdstorm_backend.loaders.tf import spec_of_column, to_tf

    for batch in batches(exact(dataset, batch_size=100)):
        yield to_tf(batch["x"], spec_of_column(dataset.schema["x"]))


def test_null_mask_leaves_null_images_null(tmp_path: Path) -> None:
    with MDSWriter(columns={"x": "png"}, out=tmp_path) as writer:
        writer.write_batch(pa.table({"x": pa.array([png(3, 2, 7), None])}))
    dataset = open_dataset(str(tmp_path))
    assert dataset[1] == {"x": None}
    (batch,) = torch_loader(dataset, null_masks=["x"])
    assert batch["x_is_null"].tolist() == [0, 1]
    assert batch["x"][1] is None
    assert tuple(batch["x"][0].shape) == (2, 3)
    with pytest.raises(NullValueError, match="'x' holds 1 null"):
        list(make_specs(dataset))


def test_lists_of_images_are_lists_of_tensors(tmp_path: Path) -> None:
    images = [png(3, 2, 7), png(1, 1, 8)]
    several = struct.pack("<4I", 0, 2, *map(len, images)) + b"".join(images)
    dataset = write(tmp_path, "list[png]", [several, bytes(8)])
    assert [[i.shape for i in images] for images in as_numpy(dataset)] == [[(2, 3), (1, 1)], []]
    first, second = as_torch(dataset)
    assert [tuple(image.shape) for image in first] == [(2, 3), (1, 1)]
    assert all(isinstance(image, torch.Tensor) for image in first)
    assert second == []
    with pytest.raises(UnsupportedTypeError, match=r"'x' of encoding 'list\[png\]'"):
        as_tf(dataset)


@pytest.mark.parametrize(
    ("encoding", "value_of", "texts"),
    [
        ("json", json.loads, [b'{"a": [1]}', b"null", b'"b"']),
        ("str_decimal", Decimal, [b"1.50", b"-0", b"1E+3"]),
    ],
)
def test_json_and_decimals_are_read_as_objects_or_text(
    tmp_path: Path, encoding: str, value_of: Callable[[str], Any], texts: list[bytes]
) -> None:
    dataset, values = write(tmp_path, encoding, texts), [value_of(t.decode()) for t in texts]
    assert repr(as_numpy(dataset).tolist()) == repr(values)
    assert repr(as_torch(dataset)) == repr(values)
    assert repr(dataset.to_pandas()["x"].tolist()) == repr(values)
    assert dataset.to_table()["x"].to_pylist() == [text.decode() for text in texts]
    assert as_tf(dataset).numpy().tolist() == texts


@pytest.mark.long
def test_numbers_stored_as_text_are_read_as_numbers(tmp_path: Path) -> None:
    for encoding, values, dtype in (
        ("str_int", [1, -(1 << 63)], "int64"),
        ("str_float", [0.1, -1e300], "float64"),
    ):
        directory = tmp_path / encoding
        directory.mkdir()
        dataset = write(directory, encoding, [str(value).encode() for value in values])
        assert as_numpy(dataset).dtype == dtype
        assert as_torch(dataset).dtype == getattr(torch, dtype)
        assert as_tf(dataset).dtype == dtype
        assert dataset.to_table()["x"].type == getattr(pa, dtype)()
        for found in (as_numpy(dataset), as_torch(dataset), as_tf(dataset).numpy()):
            assert found.tolist() == values


def test_integers_over_64_bits_are_read_as_python_objects(tmp_path: Path) -> None:
    dataset = write(tmp_path, "str_int", [b"1", b"2"], [str(1 << 70).encode()])
    assert as_numpy(dataset).tolist() == [1, 2, 1 << 70]
    assert as_torch(dataset) == [1, 2, 1 << 70]
    with pytest.raises(UnsupportedTypeError, match=r"'x' holds integers of more than 64 bits"):
        dataset.to_table()
    with pytest.raises(UnsupportedTypeError, match=r"'x' holds integers .* no TensorFlow type"):
        list(make_specs(dataset))


def test_pickles_are_read_as_objects_if_allowed(tmp_path: Path) -> None:
    values = [{"a": 1}, None, (1, 2)]
    stored = [pickle.dumps(value) for value in values]
    allowed = write(tmp_path, "pkl", stored, allow_unsafe_types=True)
    assert as_numpy(allowed).tolist() == values
    (batch,) = torch_loader(allowed, allow_unsafe_types=True)
    assert batch["x"] == values
    assert allowed.to_table()["x"].to_pylist() == stored
    with pytest.raises(UnsupportedTypeError, match="'x' of encoding 'pkl'"):
        as_tf(allowed)
    refused = Dataset(allowed.location, allowed.index)
    assert refused.to_table()["x"].to_pylist() == stored
    for read in (as_numpy, as_torch):
        with pytest.raises(UnsafeTypeError, match="allow_unsafe_types=True"):
            read(refused)


CODES = {"int16": 17, "float32": 34, "uint16": 16}


def test_arrays_are_read_with_the_dtype_stored_with_them(tmp_path: Path) -> None:
    arrays = [np.array([1, 2], np.int16), np.array([0.5], np.float32), np.ones((2, 2), np.uint16)]
    stored = ([array(values, code=CODES[values.dtype.name])] for values in arrays)
    dataset = write(tmp_path, "ndarray", *stored)
    for found in (as_numpy(dataset), dataset.to_pandas()["x"]):
        assert [(a.dtype, a.tolist()) for a in found] == [(a.dtype, a.tolist()) for a in arrays]
        assert all(a.flags.writeable for a in found)
    tensors = as_torch(dataset)
    assert [t.dtype for t in tensors] == [torch.int16, torch.float32, torch.uint16]
    assert [t.tolist() for t in tensors] == [a.tolist() for a in arrays]
    with pytest.raises(UnsupportedTypeError, match="'x' of arrays of different dtypes"):
        as_tf(dataset)
    with pytest.raises(UnsupportedTypeError, match=r"float32 of 1 dim.*int16.*uint16 of 2 dim"):
        dataset.to_table()


def test_multidimensional_ragged_arrays_keep_their_shapes(tmp_path: Path) -> None:
    arrays = [np.ones((2, 3), np.int16), np.ones(4, np.int16), np.array(5, np.int16)]
    dataset = write(tmp_path, "ndarray:int16", *([array(values)] for values in arrays))
    assert [a.tolist() for a in as_numpy(dataset)] == [a.tolist() for a in arrays]
    assert [t.tolist() for t in as_torch(dataset)] == [a.tolist() for a in arrays]
    assert [dataset[i]["x"].shape for i in range(3)] == [(2, 3), (4,), ()]
    with pytest.raises(UnsupportedTypeError, match="of 2 dimensions"):
        dataset.to_table()
    with pytest.raises(UnsupportedTypeError, match="'x' holds arrays of 2 dimensions whose shape"):
        list(make_specs(dataset))


@pytest.mark.parametrize("encoding", ["ndarray", "ndarray:int16"])
@pytest.mark.parametrize(
    "shapes", [[(2,)] * 5 + [(3,)], [(2, 3)] * 5 + [(3, 2)], [()] * 5 + [(1,)]]
)
def test_arrays_of_the_same_shape_in_a_batch_are_one_tensor(
    encoding: str, shapes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    arrays = [np.full(shape, number, np.int16) for number, shape in enumerate(shapes)]
    code = 17 if encoding == "ndarray" else None
    dataset = write(tmp_path, encoding, [array(values, code=code) for values in arrays])
    for size in (2, 5):
        batches = [batch["x"] for batch in torch_loader(dataset, batch_size=size)]
        for number, found in enumerate(batches):
            chosen = arrays[number * size : (number + 1) * size]
            assert isinstance(found, torch.Tensor) == (len({a.shape for a in chosen}) == 1)
            assert [t.tolist() for t in found] == [a.tolist() for a in chosen]
            assert {t.dtype for t in found} == {torch.int16}


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_empty_arrays_are_one_tensor(tmp_path: Path, shape: tuple[int, ...]) -> None:
    dataset = write(tmp_path, "ndarray:int16", [array(np.empty(shape, np.int16))] * 2)
    assert as_torch(dataset).shape == (2, *shape)


def test_damaged_image_raises_error_naming_column_and_dataset(tmp_path: Path) -> None:
    dataset = write(tmp_path, "png", [png(3, 2, 7), b"no image"])
    for read in (as_numpy, as_torch):
        with pytest.raises(CorruptDatasetError, match=rf"'x' of file://{tmp_path} .* as png"):
            read(dataset)
    with pytest.raises(CorruptDatasetError, match=rf"'x' of file://{tmp_path}/shard.00000.mds"):
        dataset[1]
    assert dataset[0]["x"].size == (3, 2)


@pytest.mark.parametrize("others", [{}, {"y": ("int8", 1)}, {"y": ("str", None)}])
def test_column_with_empty_name_is_read(tmp_path: Path, others: dict[str, Any]) -> None:
    y = {"int8": b"\1", "str": b"a"}.get(others["y"][0], b"") if others else b""
    sizes = struct.pack("<I", 1) if others.get("y") == ("str", None) else b""
    samples = [sizes + struct.pack("<q", number) + y for number in range(4)]
    dataset = foreign_dataset(tmp_path, [(samples, {"": ("int", 8), **others})])
    assert [sample[""] for sample in StreamingDataset(local=str(tmp_path))] == [0, 1, 2, 3]
    assert [batch[""].tolist() for batch in dataset.batches(2)] == [[0, 1], [2, 3]]
    batches = torch_loader(dataset, batch_size=2, shuffle={"seed": 1, "window": 3})
    assert sorted(number for batch in batches for number in batch[""].tolist()) == [0, 1, 2, 3]
    assert head(str(tmp_path))[""] == [0, 1, 2, 3]
    assert not verify(str(tmp_path)).problems


def test_samples_without_columns_are_empty(tmp_path: Path) -> None:
    foreign_dataset(tmp_path, [([b""] * 3, {}), ([b""] * 2, {})])
    dataset = StreamingDataset(local=str(tmp_path), batch_size=2)
    assert list(dataset) == [{}] * 5
    assert list(StreamingDataLoader(dataset, batch_size=2)) == [{}] * 3
