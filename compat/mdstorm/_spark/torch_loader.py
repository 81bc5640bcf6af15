"""Create the loader for ``make_torch_dataloader``."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from mdstorm._readers import field_patterns, rows_of_batch, sample_order
from mdstorm._spark.converter_files import ReadFiles
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import cached_property
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders.torch import (
    DatasetSettings,
    OpenedDataset,
    StreamingDataLoader,
    StreamingDataset,
    to_collated,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class ConvertedDataset(StreamingDataset):
    """A converter's PyTorch dataset, which is read according to Petastorm's arguments."""

    def __init__(self, files: ReadFiles, batch_size: int) -> None:
        # `files` has checked all arguments.
        settings = self._mdstorm_settings(
            local=files.directory,
            order=sample_order(files.arguments),
            num_epochs=files.arguments.num_epochs,
            batch_size=batch_size,
        )
        self._mdstorm = _ConvertedStates(settings, files.with_first_epoch())


class _ConvertedStates(OpenedDataset):
    """The opened data of a `ConvertedDataset`, and its reader options."""

    #: Unsigned integers become signed ones, with which PyTorch can calculate, as in Petastorm.
    convert = staticmethod(partial(to_collated, promotes=True))

    def __init__(self, settings: DatasetSettings, files: ReadFiles) -> None:
        super().__init__(settings)
        self._files = files

    @property
    def has_explicit_share(self) -> bool:
        """Whether explicit shard arguments override the process's rank and world size."""
        return self._files.arguments.is_share and not self._files.arguments.is_auto

    def shared(self) -> Self:
        """Return a copy that reads only this rank's share, or `self` if it has shard arguments."""
        if self._files.arguments.is_share:
            return self
        arguments = replace(self._files.arguments, cur_shard="auto")
        other = copy(self)
        other._files = replace(self._files, arguments=arguments)
        return other.in_order(sample_order(arguments))

    def is_output(self, name: str) -> bool:
        """Whether a stored column is an output column, as far as known without opening the data."""
        patterns = field_patterns(self._files.arguments.schema_fields or ())
        chosen = not patterns or any(re.fullmatch(pattern, name) for pattern in patterns)
        return chosen and super().is_output(name)

    @cached_property
    def dataset(self) -> SampleDataset:
        """The dataset, opened on first use."""
        return self._files.dataset()

    @cached_property
    def options(self) -> ReaderOptions:
        """The options for reading the dataset."""
        options = self._files.options(self.dataset, self.order)
        if get_worker_info() is None:  # the main process warns for its workers
            self._files.warn_of_decimals(options, "PyTorch")
        return options


def make_loader(
    files: ReadFiles,
    batch_size: int | None,
    dataset_size: int,
    *,
    batch_map: Callable[[Any], Any] | None = None,
    device: Any = None,
) -> StreamingDataLoader:
    """Create the loader, without opening anything before its first use.

    Raises
    ------
    InvalidArgumentError
        If both `files.inputs` and `batch_map` are set.
    """
    if files.inputs and batch_map is not None:
        raise InvalidArgumentError(
            "features, labels and sample_weights determine the form of a batch, and so does "
            "batch_map: pass either batch_map or the columns"
        )
    arguments = files.arguments
    rows = rows_of_batch(
        batch_size,
        num_epochs=arguments.num_epochs,
        dataset_size=dataset_size,
        spans_epochs=arguments.kind_of_order.spans_epochs,
        may_add_rows=arguments.transform_spec is not None,
    )
    return StreamingDataLoader(
        ConvertedDataset(files, rows),
        batch_size=rows,
        batch_map=files.inputs if files.inputs else batch_map,
        device=device,
    )
