"""Parquet datasets as TensorFlow datasets."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tests.kit.loaders import options_of
from tests.kit.parquet_files import open_parquet

from mdstorm_backend import ExactOrder
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.loaders.tf import make_tf_dataset
from mdstorm_backend.parquet import ParquetDataset


def dataset_of(directory: Path, columns: dict[str, Any], **options: Any) -> ParquetDataset:
    pq.write_table(pa.table(columns), directory / "a.parquet", **options)
    return open_parquet(str(directory))


def tf_batches(dataset: ParquetDataset, batch_size: int, **options: Any) -> Any:
    return make_tf_dataset(
        lambda: options_of(dataset, ExactOrder().resolved(), **options),
        batch_size=batch_size,
    )


def test_arrays_of_equal_length_are_dense_in_tensorflow(tmp_path: Path) -> None:
    columns = {"v": [[1, 2], [3, 4], [5, 6]], "s": [["a"], ["b"], ["c"]]}
    batches = tf_batches(dataset_of(tmp_path, columns), 2)
    assert batches.element_spec.v == tf.TensorSpec((None, None), tf.int64)
    assert [batch.v.numpy().tolist() for batch in batches] == [[[1, 2], [3, 4]], [[5, 6]]]
    assert next(iter(batches)).s.numpy().tolist() == [[b"a"], [b"b"]]


def test_arrays_of_different_lengths_are_ragged_in_tensorflow(tmp_path: Path) -> None:
    (batch,) = tf_batches(dataset_of(tmp_path, {"v": [[1, 2], [3, 4], [5]]}), 3)
    assert batch.v.to_list() == [[1, 2], [3, 4], [5]]


def test_nulls_without_statistics_raise_error_when_tensorflow_reads_them(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, {"n": [1, None]}, write_statistics=False)
    with pytest.raises((MDStormError, tf.errors.OpError), match="column 'n' holds 1 null"):
        list(tf_batches(dataset, 2, columns=("n",)))
