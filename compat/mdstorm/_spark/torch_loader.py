"""Make the loader of ``make_torch_dataloader``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from mdstorm._datasets.file_lists import directory_of
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.batch_size import rows_of_batch
from mdstorm._readers.decimals import undecided_decimals, warn_of_decimals
from mdstorm._readers.options import reader_options
from mdstorm._readers.sample_order import sample_order
from mdstorm._spark.files import read_converted
from mdstorm._spark.model_inputs import ModelInputs
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import cached_property
from mdstorm_backend.loaders import DatasetSettings, ReaderOptions
from mdstorm_backend.loaders.torch import DatasetStates, StreamingDataLoader, StreamingDataset
from mdstorm_backend.read import SampleSource

if TYPE_CHECKING:
    from typing_extensions import Self

_ALL_COLUMNS = ModelInputs()


class ConvertedDataset(StreamingDataset):
    """The PyTorch dataset behind a converter: read as Petastorm's arguments say."""

    def __init__(
        self,
        url: str | None,
        file_urls: Sequence[str],
        arguments: ReaderArguments,
        inputs: ModelInputs = _ALL_COLUMNS,
    ) -> None:
        local = url or directory_of(file_urls)
        super().__init__(
            local=local, order=sample_order(arguments), num_epochs=arguments.num_epochs
        )
        settings = self._mdstorm.settings
        self._mdstorm = _ConvertedFiles(settings, url, file_urls, arguments, inputs)


class _ConvertedFiles(DatasetStates):
    """What such a dataset reads, and how."""

    def __init__(
        self,
        settings: DatasetSettings,
        url: str | None,
        file_urls: Sequence[str],
        arguments: ReaderArguments,
        inputs: ModelInputs,
    ) -> None:
        super().__init__(settings)
        self._url = url
        self._file_urls = list(file_urls)
        self._arguments = arguments
        self._inputs = inputs

    @property
    def is_told_its_share(self) -> bool:
        """Whether the share is one that was given, whatever the world."""
        return self._arguments.is_share and not self._arguments.is_auto

    def shared(self) -> Self:
        """Return a copy of which each rank of the world reads a share; itself if it has shares."""
        if self._arguments.is_share:
            return self
        arguments = replace(self._arguments, cur_shard="auto")
        other = self.in_order(sample_order(arguments))
        other._arguments = arguments
        return other

    @cached_property
    def dataset(self) -> SampleSource:
        """The dataset, opened on first use."""
        return read_converted(self._url, self._file_urls, self._arguments)

    @cached_property
    def options(self) -> ReaderOptions:
        """How the dataset is read."""
        options = reader_options(self._arguments, self.dataset, self.order)
        options = self._inputs.narrowed(options)
        if get_worker_info() is None:  # a worker's process does what its loader's has warned of
            used = self._inputs.columns(options.delivered)
            names = undecided_decimals(options, self._arguments, used)
            warn_of_decimals(self.dataset.url, names, "PyTorch")
        return options


def make_loader(
    url: str | None,
    file_urls: Sequence[str],
    arguments: ReaderArguments,
    batch_size: int | None,
    dataset_size: int,
    *,
    inputs: ModelInputs = _ALL_COLUMNS,
    batch_map: Callable[[Any], Any] | None = None,
    device: Any = None,
) -> StreamingDataLoader:
    """Make the loader; nothing is opened before its first use.

    `url` is the directory of the dataset, by default the one that the files are in.

    Raises
    ------
    InvalidArgumentError
        If both `inputs` and `batch_map` say what becomes of a batch.
    """
    if inputs and batch_map is not None:
        raise InvalidArgumentError(
            "features, labels and sample_weights say what becomes of a batch, and so does "
            "batch_map: give either"
        )
    rows = rows_of_batch(
        batch_size,
        num_epochs=arguments.num_epochs,
        dataset_size=dataset_size,
        is_elastic=arguments.is_elastic,
        may_add_rows=arguments.transform_spec is not None,
    )
    return StreamingDataLoader(
        ConvertedDataset(url, file_urls, arguments, inputs),
        batch_size=rows,
        batch_map=inputs if inputs else batch_map,
        device=device,
    )
