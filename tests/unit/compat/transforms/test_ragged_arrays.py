"""Transforms that return multi-dimensional arrays of different shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import torch

from mdstorm import TransformSpec, make_batch_reader
from mdstorm.errors import TransformError
from mdstorm.pytorch import DataLoader
from mdstorm.spark import make_spark_converter
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm.unischema import UnischemaField

COUNTS = [1, 2, 3, 0, 2, 2]
#: Declared shape → shape of the array in a row with `n` boxes.
SHAPES: list[tuple[tuple[int | None, ...], Any]] = [
    ((None, 5), lambda n: (n, 5)),
    ((-1, 5), lambda n: (n, 5)),
    ((None, None), lambda n: (n, n)),
    ((2, None), lambda n: (2, n)),
    ((None, 2, None), lambda n: (n, 2, n + 1)),
    ((None, 2, 3), lambda n: (n, 2, 3)),
]
with_each_shape = pytest.mark.parametrize(("shape", "size"), SHAPES, ids=lambda v: str(v)[:20])


def made(n: int, size: Any) -> Any:
    return np.arange(np.prod(size(n)), dtype=np.float32).reshape(size(n)) + 100 * n


def spec_of(shape: tuple[int | None, ...], size: Any) -> TransformSpec:
    def add_boxes(rows: Any) -> Any:
        return rows.assign(boxes=[made(n, size) for n in rows["n"]])

    return TransformSpec(add_boxes, edit_fields=[("boxes", np.float32, shape, False)])


@pytest.fixture(params=[1, 3, 6])
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Return the URL of a file with 1, 3 or 6 rows in a row group."""
    path = tmp_path / "boxes.parquet"
    pq.write_table(pa.table({"n": COUNTS}), path, row_group_size=request.param)
    return path.as_uri()


@pytest.mark.matrix
@with_each_shape
def test_arrays_of_different_shapes_are_lists_of_tensors(
    url: str, shape: tuple[int | None, ...], size: Any
) -> None:
    options = {"transform_spec": spec_of(shape, size), "shuffle_row_groups": False, "num_epochs": 1}
    with make_spark_converter(url).make_torch_dataloader(batch_size=4, **options) as loader:
        batches = [*loader, *DataLoader(make_batch_reader(url, **options), 4)]
    assert [len(batch["boxes"]) for batch in batches] == [4, 2, 4, 2]
    assert isinstance(batches[0]["boxes"], list)
    found = [box for batch in batches for box in batch["boxes"]]
    for box, n in zip(found, COUNTS * 2, strict=True):
        assert box.dtype == torch.float32
        np.testing.assert_array_equal(box.numpy(), made(n, size))


@pytest.mark.matrix
@with_each_shape
def test_arrays_of_different_shapes_are_a_ragged_tensor(
    url: str, shape: tuple[int | None, ...], size: Any
) -> None:
    options = {"transform_spec": spec_of(shape, size), "shuffle_row_groups": False, "num_epochs": 1}
    with make_spark_converter(url).make_tf_dataset(batch_size=4, **options) as dataset:
        batches = [batch.boxes for batch in dataset]
    assert all(isinstance(boxes, tf.RaggedTensor) for boxes in batches)
    assert batches[0].shape[-1] == (None if shape[-1] is None else size(7)[-1])
    found = [box for boxes in batches for box in boxes]
    for box, n in zip(found, COUNTS, strict=True):
        values = box.to_list() if isinstance(box, tf.RaggedTensor) else box.numpy().tolist()
        assert values == made(n, size).tolist()


@pytest.mark.parametrize(("shape", "size"), [SHAPES[0], SHAPES[2]], ids=lambda v: str(v)[:20])
def test_arrays_of_different_shapes_in_a_dataset_over_a_batch_reader_raise_error_with_remedies(
    tmp_path: Path, shape: tuple[int | None, ...], size: Any
) -> None:
    path = tmp_path / "boxes.parquet"
    pq.write_table(pa.table({"n": [2, 2, 1, 2]}), path, row_group_size=2)
    spec = spec_of(shape, size)
    with make_batch_reader(
        path.as_uri(), transform_spec=spec, shuffle_row_groups=False, num_epochs=1
    ) as reader:
        batches = iter(make_petastorm_dataset(reader))
        np.testing.assert_array_equal(next(batches).boxes.numpy(), [made(2, size)] * 2)
        with pytest.raises(Exception, match=r"Got the following set of lengths.*make_tf_dataset"):
            next(batches)


def test_array_with_another_fixed_dimension_raises_error(url: str) -> None:
    spec = spec_of((None, 5), lambda n: (n, 4))
    with pytest.raises(TransformError, match=r"boxes must be the shape \(None, 5\), found \(\d, 4"):
        list(make_batch_reader(url, transform_spec=spec))


def test_minus_one_in_a_field_means_any_size(url: str) -> None:
    spec = spec_of((None, 5), lambda n: (n, 5))
    field = UnischemaField("boxes", np.float32, (-1, 5), None, False)
    spec = TransformSpec(spec.func, edit_fields=[field])
    with make_batch_reader(url, transform_spec=spec) as reader:
        assert reader.schema.boxes.shape == (None, 5)
        assert sum(len(boxes) for item in reader for boxes in item.boxes) == sum(COUNTS)
