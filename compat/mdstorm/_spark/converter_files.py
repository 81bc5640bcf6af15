"""How a converter's loaders and TensorFlow datasets read its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm._datasets import in_float_types
from mdstorm._readers import (
    FirstEpoch,
    Framework,
    ReaderArguments,
    first_epoch,
    output_schema_name,
    reader_options,
    sample_order,
    undecided_decimals,
    warn_of_decimals,
)
from mdstorm._spark.deletion import is_copy
from mdstorm._spark.model_inputs import ModelInputs
from mdstorm._spark.renewed import Renewed
from mdstorm.errors import (
    DatasetChangedError,
    DatasetNotFoundError,
    InvalidArgumentError,
)
from mdstorm_backend.base import check_integer, require
from mdstorm_backend.datasets import SampleDataset, check_choice
from mdstorm_backend.kinds import directory_of, open_stored
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.order import Order


@dataclass(frozen=True)
class CountedFiles:
    """What a converter counted in its files when it was made. Its loaders must find the same.

    Attributes
    ----------
    rows : int
        Number of rows in all files.
    sizes : mapping of str to int
        The size of each file in bytes, by its URL.
    """

    rows: int
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, dataset: SampleDataset) -> CountedFiles:
        """Count the rows and bytes of an open dataset."""
        return cls(len(dataset), _sizes(dataset))

    def check(self, dataset: SampleDataset) -> None:
        """Raise DatasetChangedError if an open dataset's files have other sizes or rows."""
        sizes = _sizes(dataset)
        for url, size in sizes.items():
            if self.sizes.get(url, size) != size:
                found = f"it had {self.sizes[url]:,} bytes, and now has {size:,}"
                raise _changed(url, found)
        if sizes.keys() == self.sizes.keys() and len(dataset) != self.rows:
            found = f"its files had {self.rows:,} rows, and now have {len(dataset):,}"
            raise _changed(dataset.url, found)


def _sizes(dataset: SampleDataset) -> dict[str, int]:
    return dict(zip(dataset.file_urls, dataset.file_sizes, strict=True))


def _changed(url: str, found: str) -> DatasetChangedError:
    return DatasetChangedError(
        f"{url} was changed after the converter was made ({found}). Make the converter again. Next "
        "time, write to a new directory instead",
        url=url,
    )


class KeptDataset:
    """The dataset that a converter or one of its loaders opened, for the next loader.

    It is pickled empty, since each process opens the dataset itself.
    """

    def __init__(self) -> None:
        self._kept: tuple[Any, SampleDataset] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptDataset, ()

    @property
    def dataset(self) -> SampleDataset | None:
        """The dataset as it is stored; None if nothing was opened yet."""
        return None if self._kept is None else self._kept[1]

    def keep(self, dataset: SampleDataset, opened_with: object) -> None:
        """Keep a dataset, with the arguments that it was opened with."""
        self._kept = opened_with, dataset

    def find(self, opened_with: object) -> SampleDataset | None:
        """Return the dataset if it was opened with these arguments, otherwise None."""
        kept = self._kept
        return None if kept is None or kept[0] != opened_with else kept[1]


@dataclass(frozen=True)
class ReadFiles:
    """The files and arguments of a converter's loader, before anything is opened.

    Attributes
    ----------
    cache_dir_url : str or None
        Dataset directory; None for the directory that contains the files.
    file_urls : sequence of str
        The dataset's files, as for `open_stored`.
    arguments : ReaderArguments
        The user's arguments.
    inputs : ModelInputs
        The columns for a model.
    first_epoch : FirstEpoch or None
        The epoch to begin with; None for epoch 0.
    use : Renewed or None
        Signals to other processes that the copy is in use while the loader exists.
    counted : CountedFiles or None
        What the converter counted in the files.
    kept : KeptDataset
        The dataset, if it is open in this process.
    """

    cache_dir_url: str | None
    file_urls: Sequence[str]
    arguments: ReaderArguments
    inputs: ModelInputs = field(default_factory=ModelInputs)
    first_epoch: FirstEpoch | None = None
    use: Renewed | None = field(default=None, compare=False, repr=False)
    counted: CountedFiles | None = field(default=None, compare=False, repr=False)
    kept: KeptDataset = field(default_factory=KeptDataset, compare=False, repr=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"kept": KeptDataset(), **state})  # older pickles do not have it

    @property
    def directory(self) -> str:
        """URL of the dataset directory."""
        return self.cache_dir_url or directory_of(self.file_urls)

    @property
    def _how(self) -> dict[str, Any]:
        """The arguments that the dataset is opened with."""
        arguments, options = self.arguments, self.arguments.storage_options
        return {
            "source": list(self.file_urls) or self.cache_dir_url,
            "directory": self.cache_dir_url,
            "storage_options": options and {**options},  # its owner may put new credentials in
            "filesystem": arguments.filesystem,
            "as_of": arguments.as_of,
        }

    def keep(self, dataset: SampleDataset) -> None:
        """Keep an open dataset for the next loader."""
        # Without a version, the next loader reads the newest version of a table.
        if dataset.table_version is None or self.arguments.as_of:
            self.kept.keep(dataset, self._how)

    def stored(self) -> SampleDataset:
        """Return the dataset as it is stored, opened unless it is kept and unchanged.

        Raises
        ------
        InvalidArgumentError
            If there are no files, or some shards do not belong to the dataset.
        DatasetNotFoundError
            If the dataset no longer exists.
        DatasetChangedError
            If the converter counted other bytes or rows.
        """
        kept = self.kept.find(self._how)
        if kept is not None and (again := kept.reopened()) is not None:
            return again
        dataset = self._open_files()
        if self.counted is not None:
            self.counted.check(dataset)
        self.keep(dataset)
        return dataset.reopened() or dataset

    def _open_files(self) -> SampleDataset:
        if not self.file_urls and self.cache_dir_url is None:
            raise InvalidArgumentError(
                "the list of files is empty: pass at least one file, or the dataset's directory"
            )
        try:
            dataset = open_stored(**self._how)
        except InvalidArgumentError as error:
            if self.counted is None or not set(self.file_urls) <= self.counted.sizes.keys():
                raise
            found = "its index no longer lists all of the converter's files"
            raise _changed(self.directory, found) from error
        except DatasetNotFoundError as error:
            if not is_copy(self.directory):
                raise
            raise DatasetNotFoundError(
                f"the copy {self.directory} does not exist: either this machine cannot access that "
                "directory, or the process that wrote the copy has ended or called delete(), which "
                "removes the copy. To keep it, convert with keep=True or a cache_key=",
                url=self.directory,
            ) from error.__cause__
        if not self.file_urls and dataset.file_urls:
            raise InvalidArgumentError(
                f"the list of files is empty, but the dataset at {dataset.url} has "
                f"{len(dataset.file_urls)} shards: pass some of them, as in converter.file_urls"
            )
        return dataset

    def dataset(self) -> SampleDataset:
        """Open the dataset with the floating-point types that the arguments request."""
        return self._typed(self.stored())

    def _typed(self, dataset: SampleDataset) -> SampleDataset:
        floats = self.arguments.floats
        source: SampleDataset = in_float_types(dataset, floats) if floats else dataset
        return source

    def check_choice(self) -> None:
        """Check `rows` and `where` if the dataset is kept, without reading data.

        Raises
        ------
        InvalidArgumentError
            If there is no such row or column.
        """
        rows, where = self.arguments.added["rows"], self.arguments.added["where"]
        if rows is None and where is None:
            return
        if (kept := self.kept.find(self._how)) is not None:
            check_choice(self._typed(kept), rows, where)

    def options(self, dataset: SampleDataset, order: Order) -> ReaderOptions:
        """Return the options for reading an opened dataset."""
        options = reader_options(self.arguments, dataset, order, first_epoch=self.first_epoch)
        slices = not self.arguments.added["transform_whole_shards"]
        return self.inputs.narrowed(replace(options, slices=slices))

    def with_first_epoch(self) -> ReadFiles:
        """Return a copy for a new loader, with the loader's first epoch."""
        return replace(self, first_epoch=first_epoch(self.arguments, self.directory))

    def warn_of_decimals(self, options: ReaderOptions, framework: Framework) -> None:
        """Warn once if decimal columns are used and the user did not choose a type for them."""
        used = self.inputs.columns(options.output_columns)
        names = undecided_decimals(options, self.arguments, used)
        warn_of_decimals(options.dataset.url, names, framework)


def make_tf_dataset(files: ReadFiles, batch_size: int, prefetch: int | None) -> Any:
    """Create a dataset for eager and graph mode, with namedtuples unless inputs are specified."""
    require("tensorflow")
    from mdstorm._tensorflow import batch_spec
    from mdstorm_backend.loaders import tf as tf_loaders

    check_integer("prefetch", prefetch, lowest=-1)
    files = files.with_first_epoch()
    arguments, inputs = files.arguments, files.inputs
    capacity = arguments.shuffling_queue_capacity  # TensorFlow rejects a negative value
    check_integer("shuffling_queue_capacity", capacity, lowest=0)
    is_split = tf_loaders.in_cluster()
    order, spec = sample_order(arguments, is_shared=is_split), arguments.transform_spec

    def options() -> ReaderOptions:
        options = files.options(files.dataset(), order)
        files.warn_of_decimals(options, "TensorFlow")
        # TensorFlow drops other workers' rows, so reading all rows requires no warning.
        return replace(options, on_pass=None) if is_split else options

    def specs(options: ReaderOptions) -> Sequence[Any]:
        names = inputs.columns(options.output_columns)
        if spec is None:
            return tf_loaders.stored_specs(options, names)
        edited = spec._mdstorm_edited()
        return [
            batch_spec(name, *edited[name][1:3])
            if name in edited
            else tf_loaders.spec_of_column(options.schema[name], options.reading.images)
            if name in options.schema
            else tf_loaders.ColumnSpec(name, "bool")
            for name in names
        ]

    chosen = bool(arguments.schema_fields)
    return tf_loaders.make_tf_dataset(
        options,
        batch_size=batch_size,
        prefetch=prefetch,
        specs=specs,
        type_name=f"{output_schema_name('inferred_schema', chosen=chosen, spec=spec)}_view",
        element=inputs if inputs else None,
    )
