"""What PyTorch and TensorFlow get of row groups, whose nulls and lengths need not be counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from mdstorm_backend.errors import MDStormError, NullValueError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.tf.tf_batches import make_tf_dataset
from mdstorm_backend.loaders.torch.torch_tensors import to_torch
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.parquet import open_parquet


def tf_batches(path: Path, batch_size: int, **options: Any) -> Any:
    return make_tf_dataset(
        lambda: ReaderOptions(open_parquet(str(path)), ExactOrder().resolved(), **options),
        batch_size=batch_size,
    )


def write(directory: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), directory / "a.parquet", **options)
    return directory


def test_arrays_of_one_length_are_dense_in_tensorflow(tmp_path: Path) -> None:
    path = write(tmp_path, {"v": [[1, 2], [3, 4], [5, 6]], "s": [["a"], ["b"], ["c"]]})
    batches = tf_batches(path, 2)
    assert batches.element_spec.v == tf.TensorSpec((None, None), tf.int64)
    assert [batch.v.numpy().tolist() for batch in batches] == [[[1, 2], [3, 4]], [[5, 6]]]
    assert next(iter(batches)).s.numpy().tolist() == [[b"a"], [b"b"]]


def test_arrays_whose_lengths_differ_are_ragged_in_tensorflow(tmp_path: Path) -> None:
    path = write(tmp_path, {"v": [[1, 2], [3, 4], [5]]})
    (batch,) = tf_batches(path, 3)
    assert batch.v.to_list() == [[1, 2], [3, 4], [5]]


def test_nulls_that_nobody_counted_are_refused_where_they_come(tmp_path: Path) -> None:
    columns = {"b": [True, None], "v": [[1], None], "n": [1, None]}
    path = write(tmp_path, columns, write_statistics=False)
    dataset = open_parquet(str(path))
    batch = dataset.shard(0).read(np.arange(2), list(columns))
    for name in ("b", "v"):
        with pytest.raises(NullValueError, match=f"column '{name}' holds 1 null"):
            to_torch(batch[name], dataset.schema[name], name)
    numbers: Any = to_torch(batch["n"], dataset.schema["n"], "n")
    assert repr(numbers.tolist()) == "[1.0, nan]"
    with pytest.raises((MDStormError, tf.errors.OpError), match="column 'n' holds 1 null"):
        list(tf_batches(path, 2, columns=("n",)))
