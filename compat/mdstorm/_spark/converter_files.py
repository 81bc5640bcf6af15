"""The files of a converter, and how its loaders read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from mdstorm._datasets.decoded_source import with_float_decimals
from mdstorm._datasets.sources import directory_of, open_files
from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.decimals import Framework, undecided_decimals, warn_of_decimals
from mdstorm._readers.keywords import READER_KEYWORDS, check_keywords
from mdstorm._readers.options import reader_options
from mdstorm._readers.sample_order import FirstEpoch, first_epoch
from mdstorm._spark.model_inputs import ModelInputs
from mdstorm.errors import DatasetNotFoundError
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.format import become_floats
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import SampleSource

#: Rows.
DEFAULT_BATCH_SIZE = 32
_ALL_COLUMNS = ModelInputs()


@dataclass(frozen=True)
class ReadFiles:
    """What a loader of a converter reads, and how. Nothing is open yet.

    Attributes
    ----------
    cache_dir_url : str or None
        Directory of the dataset; None for the one that the files are in.
    file_urls : sequence of str
        Its files, as `open_files` takes them.
    arguments : ReaderArguments
        What the user gave.
    inputs : ModelInputs
        Which columns a model takes.
    begins : FirstEpoch or None
        With which epoch to begin, if not with the first one.
    """

    cache_dir_url: str | None
    file_urls: Sequence[str]
    arguments: ReaderArguments
    inputs: ModelInputs = _ALL_COLUMNS
    begins: FirstEpoch | None = None

    @property
    def directory(self) -> str:
        """URL of the directory of the dataset."""
        return self.cache_dir_url or directory_of(self.file_urls)

    def stored(self) -> Dataset | ParquetDataset:
        """Open the dataset as it is stored.

        Raises
        ------
        InvalidArgumentError
            If there is no file, or shards are not of that dataset.
        DatasetNotFoundError
            If it is gone.
        """
        return open_files(
            self.file_urls,
            directory=self.cache_dir_url,
            storage_options=self.arguments.storage_options,
            filesystem=self.arguments.filesystem,
            as_of=self.arguments.as_of,
        )

    def dataset(self) -> SampleSource:
        """Open the dataset, with decimals as the arguments say."""
        dataset = self.stored()
        if not become_floats(self.arguments.decimals):
            return dataset
        source: SampleSource = with_float_decimals(dataset, self.arguments.decimals)
        return source

    def options(self, dataset: SampleSource, order: ExactOrder | ElasticShare) -> ReaderOptions:
        """Return how to read what `dataset` has opened."""
        options = reader_options(self.arguments, dataset, order, begins=self.begins)
        slices = not self.arguments.transform_whole_shards
        return self.inputs.narrowed(replace(options, slices=slices))

    def begun(self) -> ReadFiles:
        """Return the same for a loader that is being made, with an epoch to begin with."""
        return replace(self, begins=first_epoch(self.arguments, self.directory))

    def warn_of_decimals(self, options: ReaderOptions, framework: Framework) -> None:
        """Warn once of columns of decimals that are used, and of which nobody has decided."""
        used = self.inputs.columns(options.delivered)
        names = undecided_decimals(options, self.arguments, used)
        warn_of_decimals(options.dataset.url, names, framework)


class ConverterFiles:
    """The files of a converter; `SparkDatasetConverter` says what they are."""

    cache_dir_url: str | None
    file_urls: list[str]
    dataset_size: int
    _mdstorm_decimals: str | None
    _mdstorm_is_deleted: bool
    _mdstorm_version: int | None

    def _mdstorm_read(
        self, method: Callable[..., Any], inputs: ModelInputs, keywords: Any, **named: Any
    ) -> ReadFiles:
        """Return what a loader reads.

        Parameters
        ----------
        method : callable
            The method that makes it, of which other keywords are refused.
        inputs : ModelInputs
            Which columns a model takes.
        keywords : ReaderKeywords
            What a method was given; gets what was said of decimals, unless it says something.
        **named
            Further arguments of a reader.
        """
        if self._mdstorm_is_deleted:
            raise DatasetNotFoundError(
                f"the copy {self.cache_dir_url} was deleted by delete(): convert the frame again",
                url=self.cache_dir_url or "",
            )
        known = [*list(signature(method).parameters)[:-1], *READER_KEYWORDS]
        check_keywords(method.__name__, keywords, known)
        if self._mdstorm_decimals is not None:
            keywords.setdefault("decimals", self._mdstorm_decimals)
        arguments = ReaderArguments(version=self._mdstorm_version, **named, **keywords)
        return ReadFiles(self.cache_dir_url, list(self.file_urls), arguments, inputs)
