"""PyTorch and TensorFlow from row groups: batches, shares, states, worker processes."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import torch

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.errors import MDStormError, NullValueError
from mdstorm_backend.loaders.dataset_settings import DatasetSettings
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.tf.tf_batches import make_tf_dataset
from mdstorm_backend.loaders.torch.dataset_states import DatasetStates
from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.parquet import ParquetDataset, open_parquet

ROWS, PER_GROUP = 60, 10


class Rows(StreamingDataset):
    """A Parquet dataset for a loader."""

    def __init__(self, path: Path, order: ExactOrder | ElasticShare, **options: Any) -> None:
        super().__init__(local=str(path), order=order)
        self._mdstorm = OpenedRows(self._mdstorm.settings, str(path), options)


class OpenedRows(DatasetStates):
    """What it reads, and how."""

    def __init__(self, settings: DatasetSettings, path: str, options: dict[str, Any]) -> None:
        super().__init__(settings)
        self._path = path
        self._options = options

    @cached_property
    def dataset(self) -> ParquetDataset:
        return open_parquet(self._path)

    @cached_property
    def options(self) -> ReaderOptions:
        assert isinstance(self.order, ExactOrder | ElasticShare)
        return ReaderOptions(self.dataset, self.order, **self._options)


def loader(path: Path, *, num_workers: int = 0, batch_size: int = 8, **options: Any) -> Any:
    order = ExactOrder(**options.pop("order", {})).resolved()
    source = Rows(path, order, **options)
    return StreamingDataLoader(source, batch_size=batch_size, num_workers=num_workers)


def tf_batches(path: Path, batch_size: int, **options: Any) -> Any:
    return make_tf_dataset(
        lambda: ReaderOptions(open_parquet(str(path)), ExactOrder().resolved(), **options),
        batch_size=batch_size,
    )


def write(directory: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), directory / "a.parquet", **options)
    return directory


def test_arrays_of_one_length_arrive_as_tensors(tmp_path: Path) -> None:
    path = write(tmp_path, {"v": [[1.0, 2.0], [3.0, 4.0], [5.0], [6.0]]})
    first, second = (batch["v"] for batch in loader(path, batch_size=2))
    assert torch.equal(first, torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))
    assert second.shape == (2, 1)
    (all_rows,) = (batch["v"] for batch in loader(path, batch_size=4))
    assert [row.tolist() for row in all_rows] == [[1.0, 2.0], [3.0, 4.0], [5.0], [6.0]]


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
    for name in ("b", "v"):
        with pytest.raises(NullValueError, match=f"column '{name}' holds 1 null"):
            list(loader(path, columns=(name,)))
    ((batch),) = loader(path, columns=("n",))
    assert repr(batch["n"].tolist()) == "[1.0, nan]"
    with pytest.raises((MDStormError, tf.errors.OpError), match="column 'n' holds 1 null"):
        list(tf_batches(path, 2, columns=("n",)))
