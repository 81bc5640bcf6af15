"""Loaders created by a `data_loader_fn`, and Petastorm's context managers without a converter."""

from typing import Any

import pytest
from tests.unit.compat.spark.converters import IN_ORDER

from mdstorm import TransformSpec
from mdstorm.errors import DatasetNotFoundError, InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter
from mdstorm.spark.spark_dataset_converter import (
    TFDatasetContextManager,
    TorchDatasetContextManager,
)

READER = {**IN_ORDER, "workers_count": 1}


class Recorder:
    """A loader that records the arguments of its constructor."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords

    def __iter__(self) -> Any:
        return iter(self.keywords["reader"])


class TestDataLoaderFunction:
    """Loaders made by the `data_loader_fn` that `make_torch_dataloader` is given."""

    def test_data_loader_fn_is_called_on_entry_with_three_keywords(
        self, ten: SparkDatasetConverter
    ) -> None:
        manager = ten.make_torch_dataloader(4, 1, None, 7, Recorder)
        assert isinstance(manager, TorchDatasetContextManager)
        assert (manager.reader, manager.loader) == (None, None)
        with manager as loader:
            assert isinstance(loader, Recorder)
            assert set(loader.keywords) == {"reader", "batch_size", "shuffling_queue_capacity"}
            assert loader.keywords["batch_size"] == 4
            assert loader.keywords["shuffling_queue_capacity"] == 7
            assert loader.keywords["reader"] is manager.reader
            assert loader is manager.loader

    def test_reader_for_data_loader_fn_has_share_and_transform(
        self, ten: SparkDatasetConverter
    ) -> None:
        spec = TransformSpec(lambda frame: frame * 2)
        arguments = {**IN_ORDER, "cur_shard": 1, "shard_count": 2, "transform_spec": spec}
        with ten.make_torch_dataloader(data_loader_fn=Recorder, **arguments) as loader:
            assert [part.number.tolist() for part in loader] == [[10, 12, 14, 16, 18]]

    def test_context_manager_attributes_match_petastorm(self, ten: SparkDatasetConverter) -> None:
        manager = ten.make_torch_dataloader(8, 3, 2, 5, Recorder, seed=1)
        assert manager.parquet_file_url_list == ten.file_urls
        assert (manager.batch_size, manager.shuffling_queue_capacity) == (8, 5)
        assert manager.petastorm_reader_kwargs == {"seed": 1, "num_epochs": 3, "workers_count": 2}
        assert manager.data_loader_fn is Recorder

    def test_data_loader_fn_reader_stops_when_context_exits(
        self, ten: SparkDatasetConverter
    ) -> None:
        manager = ten.make_torch_dataloader(data_loader_fn=Recorder, **IN_ORDER)
        for _ in range(2):
            with manager as loader:
                assert len(list(loader)) == 2
            assert manager.reader.stopped is True
            with pytest.raises(RuntimeError, match="Trying to read a sample after a reader"):
                next(manager.reader)


class TestWithoutConverter:
    """Context managers created without a converter, using Petastorm's arguments."""

    def test_tf_context_manager_over_files_yields_batches(self, ten: SparkDatasetConverter) -> None:
        manager = TFDatasetContextManager(
            parquet_file_url_list=ten.file_urls,
            batch_size=4,
            prefetch=None,
            petastorm_reader_kwargs=READER,
            shuffling_queue_capacity=None,
        )
        with manager as dataset:
            batches = [batch.number.numpy().tolist() for batch in dataset]
        assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

    def test_context_manager_over_deleted_files_raises_error_on_entry(
        self, ten: SparkDatasetConverter
    ) -> None:
        manager = TorchDatasetContextManager(ten.file_urls, 4, READER, 0, Recorder)
        ten.delete()
        with pytest.raises(DatasetNotFoundError):
            manager.__enter__()

    def test_context_manager_over_some_files_reads_only_these_files(
        self, ten: SparkDatasetConverter
    ) -> None:
        part = ten.file_urls[1:]
        with TorchDatasetContextManager(part, 9, READER, 0, None) as loader:
            assert [batch["number"].tolist() for batch in loader] == [[5, 6, 7, 8, 9]]
        with TFDatasetContextManager(part, 9, None, READER, 0) as dataset:
            assert [batch.number.numpy().tolist() for batch in dataset] == [[5, 6, 7, 8, 9]]

    def test_context_manager_without_files_raises_error(self) -> None:
        with pytest.raises(InvalidArgumentError, match="at least one shard file"):
            TorchDatasetContextManager([], 4, READER, 0, None)
        with pytest.raises(InvalidArgumentError, match="at least one shard file"):
            TFDatasetContextManager([], 4, None, READER, None)
