"""The loader of ``make_torch_dataloader``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property

from mdstorm.errors import InvalidArgumentError
from mdstorm.spark._files import open_files
from mdstorm.spark._reader_arguments import ReaderArguments, check_integer
from mdstorm_backend.dataset import Dataset
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.frameworks.torch_dataset import StreamingDataset
from mdstorm_backend.frameworks.torch_loader import StreamingDataLoader

__all__ = ["make_loader"]


class ConvertedDataset(StreamingDataset):
    """The PyTorch dataset behind a converter: read as Petastorm's arguments say."""

    def __init__(self, url: str, file_urls: Sequence[str], arguments: ReaderArguments) -> None:
        super().__init__(local=url, order=arguments.order(), num_epochs=arguments.num_epochs)
        self._url = url
        self._file_urls = list(file_urls)
        self._arguments = arguments

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset, opened on first use."""
        return open_files(self._url, self._file_urls)

    @cached_property
    def options(self) -> ReaderOptions:
        """How the dataset is read."""
        return self._arguments.options(self.dataset, self.order)


def make_loader(
    url: str,
    file_urls: Sequence[str],
    arguments: ReaderArguments,
    batch_size: int | None,
    dataset_size: int,
) -> StreamingDataLoader:
    """Make the loader; nothing is opened before its first use."""
    check_integer("batch_size", batch_size)
    if not batch_size or batch_size < 1:
        if arguments.num_epochs is None:
            raise InvalidArgumentError(
                f"batch_size={batch_size!r} puts all rows into one batch, and num_epochs=None "
                "never ends: give a batch_size, or a number of epochs"
            )
        transformed = arguments.others.get("transform_spec") is not None
        if arguments.is_elastic:  # where no batch spans epochs
            batch_size = max(dataset_size, 1)
        else:
            # A transform may make more rows of them.
            rows = max(dataset_size * arguments.num_epochs, 1)
            batch_size = sys.maxsize if transformed else rows
    return StreamingDataLoader(ConvertedDataset(url, file_urls, arguments), batch_size=batch_size)
