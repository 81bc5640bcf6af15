"""Petastorm's context managers, for ``data_loader_fn`` and for direct use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from mdstorm._datasets import opened
from mdstorm._petastorm_names import public
from mdstorm._readers import (
    AddedReaderKeywords,
    Reader,
    ReaderArguments,
    ReaderKeywords,
    check_keywords,
)
from mdstorm._spark.converter_files import ReadFiles, make_tf_dataset
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import OwnContext, require

if TYPE_CHECKING:
    from typing_extensions import Self

_Loader = TypeVar("_Loader")


@public("mdstorm.spark.spark_dataset_converter")
class TFDatasetContextManager(OwnContext):
    """A context manager that creates a TensorFlow dataset on entry.

    Parameters
    ----------
    parquet_file_url_list : sequence of str
        URLs of Parquet files, or of shards in the same dataset.
    batch_size : int
        Rows per batch.
    prefetch : int or None
        Number of batches that TensorFlow prefetches.
    petastorm_reader_kwargs : dict
        Petastorm's reader arguments, with ``num_epochs`` and ``workers_count``.
    shuffling_queue_capacity : int or None
        Rows that are shuffled together.
    """

    def __init__(
        self,
        parquet_file_url_list: Sequence[str],
        batch_size: int,
        prefetch: int | None,
        petastorm_reader_kwargs: dict[str, Any],
        shuffling_queue_capacity: int | None,
    ) -> None:
        self.parquet_file_url_list = list(parquet_file_url_list)
        self.batch_size = batch_size
        self.prefetch = prefetch
        self.petastorm_reader_kwargs = petastorm_reader_kwargs
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self._files = _files(
            self.parquet_file_url_list, petastorm_reader_kwargs, shuffling_queue_capacity
        )

    def __enter__(self) -> Any:
        return make_tf_dataset(self._files, self.batch_size, self.prefetch)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        """Do nothing: the threads of a pass end with its iterator."""


@public("mdstorm.spark.spark_dataset_converter")
class TorchDatasetContextManager(OwnContext, Generic[_Loader]):
    """A context manager that opens a reader on entry and passes it to ``data_loader_fn``.

    Parameters
    ----------
    parquet_file_url_list : sequence of str
        URLs of Parquet files, or of shards in the same dataset.
    batch_size : int
        Passed on to `data_loader_fn`.
    petastorm_reader_kwargs : dict
        Petastorm's reader arguments, with ``num_epochs`` and ``workers_count``.
    shuffling_queue_capacity : int
        Passed on to `data_loader_fn`.
    data_loader_fn : callable or None
        Called with the keywords ``reader``, ``batch_size`` and ``shuffling_queue_capacity``; its
        result is the target of ``with … as``. If None, the default loader is created.

    Attributes
    ----------
    reader : Reader or None
        The reader that was passed to `data_loader_fn`.
    loader : object
        The target of ``with … as``, once the context has been entered.
    """

    def __init__(
        self,
        parquet_file_url_list: Sequence[str],
        batch_size: int,
        petastorm_reader_kwargs: dict[str, Any],
        shuffling_queue_capacity: int,
        data_loader_fn: Callable[..., _Loader] | None,
    ) -> None:
        self.parquet_file_url_list = list(parquet_file_url_list)
        self.batch_size = batch_size
        self.petastorm_reader_kwargs = petastorm_reader_kwargs
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self.data_loader_fn = data_loader_fn
        self._files = _files(
            self.parquet_file_url_list, petastorm_reader_kwargs, shuffling_queue_capacity
        )
        self.reader: Reader | None = None
        self.loader: Any = None

    def _mdstorm_of(self, files: ReadFiles) -> Self:
        """Read a converter's files, which it may have opened."""
        self._files = replace(files, arguments=self._files.arguments)
        return self

    def __enter__(self) -> _Loader:  # type: ignore[override]
        function, arguments = self.data_loader_fn, self._files.arguments
        dataset = self._files.stored()
        if function is None:
            require("torch")
            from mdstorm._spark.torch_loader import make_loader

            self.loader = make_loader(self._files, self.batch_size, len(dataset))
            return cast(_Loader, self.loader)
        self.reader = Reader(
            opened(dataset, decode=False, floats=arguments.floats),
            replace(arguments, shuffling_queue_capacity=0),
            batched=True,
        )
        self.loader = function(
            reader=self.reader,
            batch_size=self.batch_size,
            shuffling_queue_capacity=self.shuffling_queue_capacity,
        )
        return cast(_Loader, self.loader)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        if self.reader is not None:
            self.reader.stop()
            self.reader.join()
        elif self.data_loader_fn is None and self.loader is not None:
            self.loader.close()


def _files(file_urls: list[str], keywords: dict[str, Any], queue_capacity: int | None) -> ReadFiles:
    if not file_urls:
        raise InvalidArgumentError("a loader requires the URL of at least one shard file")
    added = (AddedReaderKeywords, ReaderKeywords)
    known = {"num_epochs", "workers_count"}.union(*(one.__annotations__ for one in added))
    check_keywords("make_batch_reader", keywords, known)
    given = {"num_epochs": None, "workers_count": None, **keywords}
    arguments = ReaderArguments.of(shuffling_queue_capacity=queue_capacity, **given)
    return ReadFiles(None, file_urls, arguments)
