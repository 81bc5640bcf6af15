"""Nested arrays in converters, as PyTorch and TensorFlow tensors."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import torch
from tests.kit.small_datasets import array_of
from tests.unit.compat.spark.converters import converter_of

from mdstorm import make_batch_reader
from mdstorm.errors import NullValueError
from mdstorm.spark import make_spark_converter
from mdstorm.transform import TransformSpec

FLOATS = array_of(array_of("float"))
ONCE: dict[str, Any] = {"num_epochs": 1, "batch_size": 10, "shuffle_row_groups": False}
MATRICES = np.arange(64, dtype=np.float32).reshape(8, 2, 4)
SHAPES = [[[1.0, 2.0]], [[3.0], [4.0]], []]
UNEVEN = [[[1.0, 2.0], [3.0]], [[4.0]], [[]], []]


def converter(directory: Path, values: Any, type_: Any = FLOATS, **options: Any) -> Any:
    ids = list(range(len(values)))
    return converter_of(directory, {"id": ids, "v": values}, {"id": "long", "v": type_}, **options)


def in_torch(made: Any, **arguments: Any) -> Any:
    with made.make_torch_dataloader(**{**ONCE, **arguments}) as loader:
        (batch,) = loader
    return batch["v"]


def in_tf(made: Any, **arguments: Any) -> Any:
    with made.make_tf_dataset(**{**ONCE, **arguments}) as dataset:
        (batch,) = dataset
    return dataset.element_spec.v, batch.v


def test_nested_arrays_of_equal_shape_become_one_tensor(tmp_path: Path) -> None:
    made = converter(tmp_path, MATRICES.tolist())
    assert torch.equal(in_torch(made), torch.from_numpy(MATRICES))
    spec, found = in_tf(made)
    assert spec == tf.TensorSpec((None, 2, 4), tf.float32)
    assert found.numpy().tolist() == MATRICES.tolist()


def test_nested_arrays_of_different_shapes_become_lists_or_ragged_tensors(tmp_path: Path) -> None:
    made = converter(tmp_path / "even", SHAPES)
    found = in_torch(made)
    assert [tuple(tensor.shape) for tensor in found] == [(1, 2), (2, 1), (0, 0)]
    assert [tensor.tolist() for tensor in found] == SHAPES
    spec, ragged = in_tf(made)
    assert spec == tf.RaggedTensorSpec((None, None, None), tf.float32, 2, tf.int64)
    assert ragged.to_list() == SHAPES
    uneven = converter(tmp_path / "uneven", UNEVEN)
    found = in_torch(uneven)
    assert [[tensor.tolist() for tensor in row] for row in found] == UNEVEN
    assert {tensor.dtype for row in found for tensor in row} == {torch.float32}
    assert in_tf(uneven)[1].to_list() == UNEVEN


def test_reader_over_some_files_keeps_nested_shape_from_all_files(tmp_path: Path) -> None:
    rows = [[[1.0]], [[2.0]], [[3.0, 4.0]]]
    for name, more in {"ragged": [], "uneven": [[[5.0], []]]}.items():
        values = [*rows, *more]
        made = converter(tmp_path / name, values, batch_rows=1, shard_size=1)
        with make_batch_reader(made.file_urls[:2], num_epochs=1) as reader:
            assert reader.schema.fields["v"].shape == (None, None)
            cells = [cell for batch in reader for cell in batch.v]
        assert [isinstance(cell, list) for cell in cells] == [bool(more)] * 2


@pytest.mark.parametrize(
    ("values", "fill", "expected"),
    [
        ([[[1, None]], [[3, 4]]], 9, [[[1, 9]], [[3, 4]]]),
        ([[[1, 2]], None], 9, [[[1, 2]], [[9, 9]]]),
        ([[[1, 2], None], None, [[None]]], 9, [[[1, 2], []], [], [[9]]]),
    ],
    ids=str,
)
def test_fill_nulls_fills_nested_nulls_at_any_depth(
    tmp_path: Path, values: Any, fill: Any, expected: Any
) -> None:
    made = converter(tmp_path, values, array_of(array_of("long")))
    found = in_torch(made, fill_nulls={"v": fill})
    listed = [[inner.tolist() for inner in row] for row in found]
    assert listed == expected
    ragged = in_tf(made, fill_nulls={"v": fill})[1]
    is_ragged = isinstance(ragged, tf.RaggedTensor)
    assert (ragged.to_list() if is_ragged else ragged.numpy().tolist()) == expected


@pytest.mark.parametrize("values", [["a", None], [["a", None], ["b"]]], ids=["flat", "arrays"])
def test_error_for_null_strings_names_remedies_that_work(tmp_path: Path, values: Any) -> None:
    pq.write_table(pa.table({"id": [0, 1], "v": values}), tmp_path / "a.parquet")
    with pytest.raises((tf.errors.OpError, NullValueError)) as caught:
        in_tf(make_spark_converter(tmp_path.as_uri()))
    message = str(caught.value)
    assert "fill_nulls={'v': …}, add a mask column with null_masks=['v']" in message
    is_array = isinstance(values[0], list)
    assert ("which also replaces nulls inside arrays" in message) == is_array
    assert ("df.na.drop" in message) == (not is_array)


def test_nested_null_floats_become_nan_and_null_arrays_raise_error(tmp_path: Path) -> None:
    assert repr(in_torch(converter(tmp_path / "a", [[[1.0, None]]])).tolist()) == "[[[1.0, nan]]]"
    uneven = converter(tmp_path / "b", [[[1.0, None], []]])
    assert repr([t.tolist() for t in in_torch(uneven)[0]]) == "[[1.0, nan], []]"
    for number, values in enumerate([[[[1.0]], None], [[[1.0], None]]]):
        made = converter(tmp_path / f"c{number}", values)
        with pytest.raises(NullValueError, match="column 'v' holds 1 null"):
            in_torch(made)


def doubled(frame: pd.DataFrame) -> pd.DataFrame:
    assert all(isinstance(cell, np.ndarray) and cell.ndim == 2 for cell in frame["v"])
    return frame.assign(v=[cell * 2 for cell in frame["v"]])


def test_transform_gets_and_returns_arrays_for_nested_column(tmp_path: Path) -> None:
    spec = TransformSpec(doubled)
    alike = converter(tmp_path / "a", MATRICES.tolist())
    assert torch.equal(in_torch(alike, transform_spec=spec), torch.from_numpy(MATRICES * 2))
    assert in_tf(alike, transform_spec=spec)[1].shape == (8, 2, 4)
    ragged = converter(tmp_path / "b", SHAPES)
    expected = [[[2 * x for x in inner] for inner in row] for row in SHAPES]
    assert [tensor.tolist() for tensor in in_torch(ragged, transform_spec=spec)] == expected
    assert in_tf(ragged, transform_spec=spec)[1].to_list() == expected


@pytest.mark.parametrize(
    ("rows", "batch_rows"),
    [([[[1.0, 2.0]], [[3.0]]], 1), ([[[1.0]], [[3.0]], *SHAPES], 2)],
    ids=["each of one", "one of several"],
)
def test_transformed_shards_of_different_shapes_are_joined_in_a_batch(
    tmp_path: Path, rows: Any, batch_rows: int
) -> None:
    spec = TransformSpec(doubled)
    made = converter(tmp_path, rows, batch_rows=batch_rows, shard_size=1)
    expected = [[[2 * x for x in inner] for inner in row] for row in rows]
    assert [tensor.tolist() for tensor in in_torch(made, transform_spec=spec)] == expected
    assert in_tf(made, transform_spec=spec)[1].to_list() == expected


def test_transform_gets_lists_of_arrays_for_uneven_column(tmp_path: Path) -> None:
    def total(frame: pd.DataFrame) -> pd.DataFrame:
        sums = [float(sum(inner.sum() for inner in cell)) for cell in frame["v"]]
        return frame.assign(v=sums)

    made = converter(tmp_path, UNEVEN)
    spec = TransformSpec(total, [("v", np.float64, (), False)])
    assert in_torch(made, transform_spec=spec).tolist() == [6.0, 4.0, 0.0, 0.0]
    same = TransformSpec(lambda frame: frame)
    found = in_torch(made, transform_spec=same)
    assert [[tensor.tolist() for tensor in row] for row in found] == UNEVEN
    assert in_tf(made, transform_spec=same)[1].to_list() == UNEVEN


@pytest.mark.parametrize(("values", "shape"), [(MATRICES.tolist(), (2, 4)), (SHAPES, (None, None))])
def test_readers_yield_nested_arrays_from_mds(tmp_path: Path, values: Any, shape: Any) -> None:
    made = converter(tmp_path, values)
    with make_batch_reader(made.file_urls, num_epochs=1) as reader:
        assert reader.schema.fields["v"].shape == shape
        assert reader.schema.fields["v"].numpy_dtype == np.float32
        found = [row.tolist() for batch in reader for row in batch.v]
    assert found == values


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (array_of(array_of("string")), [[["a", "b"], []], []]),
        (array_of("binary"), [[b"a", b"\xff\0"], []]),
        (array_of(array_of("binary")), [[[b"a"], [b"\xff\0", b""]], []]),
    ],
    ids=str,
)
def test_nested_strings_and_binaries_become_lists_or_ragged_tensors(
    tmp_path: Path, type_: Any, values: Any
) -> None:
    def encoded(value: Any) -> Any:
        if isinstance(value, list):
            return [encoded(item) for item in value]
        return value.encode() if isinstance(value, str) else value

    made = converter(tmp_path, values, type_)
    assert in_torch(made) == values
    assert in_tf(made)[1].to_list() == encoded(values)


def test_copy_from_earlier_version_with_different_encodings_is_not_reused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdstorm._spark import copies

    df = spark.sql("SELECT array(array(1.5D)) AS v")
    arguments: dict[str, Any] = {"parent_cache_dir_url": tmp_path.as_uri(), "cache_key": "a"}
    identify = copies.identify

    def of_earlier_version(df: Any, options: dict[str, Any]) -> Any:
        return identify(df, {**options, "encodings": {"v": "json"}})

    with monkeypatch.context() as patch:
        patch.setattr(copies, "identify", of_earlier_version)
        earlier = make_spark_converter(df, **arguments)
    now = make_spark_converter(df, **arguments)
    again = make_spark_converter(df, **arguments)
    assert earlier.cache_dir_url != now.cache_dir_url == again.cache_dir_url


def test_nested_arrays_in_parquet_files_are_omitted_unless_selected(tmp_path: Path) -> None:
    nested = pa.array(MATRICES[:2].tolist(), pa.list_(pa.list_(pa.float32())))
    pq.write_table(pa.table({"id": [1, 2], "v": nested}), tmp_path / "a.parquet")
    url = tmp_path.as_uri()
    with pytest.warns(UserWarning, match="ARROW-1644"), make_batch_reader(url) as reader:
        assert next(iter(reader))._fields == ("id",)
    with make_batch_reader(url, schema_fields=["v"], num_epochs=1) as reader:
        (batch,) = reader
    assert batch.v.shape == (2, 2, 4)
    assert batch.v.dtype == np.float32
