"""Parquet datasets as TensorFlow datasets."""

import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from mdstorm_backend import ExactOrder
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders.tf import make_tf_dataset
from mdstorm_backend.parquet import ParquetDataset, footers, open_parquet, value_bounds


def dataset_of(directory: Path, columns: dict[str, Any], **options: Any) -> ParquetDataset:
    pq.write_table(pa.table(columns), directory / "a.parquet", **options)
    return open_parquet(str(directory))


def tf_batches(dataset: ParquetDataset, batch_size: int, **options: Any) -> Any:
    return make_tf_dataset(
        lambda: ReaderOptions(dataset, ExactOrder().resolved(), **options),
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


def test_autograph_does_not_convert_readers_called_in_a_tf_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[set[str]] = []
    dataset_of(tmp_path, {"n": [1, 2]})
    read = footers.read_struct

    def noted(*arguments: Any) -> Any:
        called.append({frame.name for frame in traceback.extract_stack()})
        return read(*arguments)

    monkeypatch.setattr(footers, "read_struct", noted)

    @tf.function  # type: ignore[untyped-decorator]
    def opened() -> Any:
        value_bounds(open_parquet(str(tmp_path)), ["n"])
        return tf.constant(0)

    opened()
    assert len(called) == 2
    rewritten = {name for names in called for name in names if name.startswith("tf__")}
    assert rewritten <= {"tf__opened"}
