"""The context manager for loaders of the user's own making."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from mdstorm_backend.dataset import open_dataset

from mdstorm.errors import InvalidArgumentError
from mdstorm.spark._loader_reader import LoaderReader
from mdstorm.spark._reader_arguments import ReaderArguments

__all__ = ["TorchDatasetContextManager"]


class TorchDatasetContextManager:
    """Opens a reader on entry and hands it to ``data_loader_fn``.

    Parameters
    ----------
    parquet_file_url_list : sequence of str
        URLs of the shard files of one dataset.
    batch_size : int
        Passed on to `data_loader_fn`.
    petastorm_reader_kwargs : dict
        Petastorm's reader arguments, with ``num_epochs`` and ``workers_count``.
    shuffling_queue_capacity : int
        Passed on to `data_loader_fn`.
    data_loader_fn : callable
        Called with the keywords ``reader``, ``batch_size`` and ``shuffling_queue_capacity``; what
        it returns is what ``with … as`` gets.
    """

    def __init__(
        self,
        parquet_file_url_list: Sequence[str],
        batch_size: int,
        petastorm_reader_kwargs: dict[str, Any],
        shuffling_queue_capacity: int,
        data_loader_fn: Callable[..., Any],
    ) -> None:
        if not parquet_file_url_list:
            raise InvalidArgumentError("a loader needs the URL of at least one shard file")
        self.parquet_file_url_list = list(parquet_file_url_list)
        self.batch_size = batch_size
        self.petastorm_reader_kwargs = petastorm_reader_kwargs
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self.data_loader_fn = data_loader_fn
        self.reader: LoaderReader | None = None
        self.loader: Any = None

    def __enter__(self) -> Any:
        others = dict(self.petastorm_reader_kwargs)
        arguments = ReaderArguments(
            "make_batch_reader",
            others.pop("num_epochs", None),
            others.pop("workers_count", None),
            0,
            others,
        )
        dataset = open_dataset(self.parquet_file_url_list[0].rpartition("/")[0])
        self.reader = LoaderReader(arguments.options(dataset, arguments.order()))
        self.loader = self.data_loader_fn(
            reader=self.reader,
            batch_size=self.batch_size,
            shuffling_queue_capacity=self.shuffling_queue_capacity,
        )
        return self.loader

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.reader is not None:
            self.reader.stop()
            self.reader.join()
