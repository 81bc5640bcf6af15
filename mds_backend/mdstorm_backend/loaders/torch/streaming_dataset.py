"""`StreamingDataset`: the samples of one or more MDS datasets in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from torch.utils.data import IterableDataset, get_worker_info

from mdstorm_backend.base.arguments import checker_of
from mdstorm_backend.base.checks import (
    check_flag,
    check_mapping,
    check_names,
    defaults_of,
    keywords_of,
    overrides,
    refuses_assigned_arguments,
    suggests_keywords,
    warn_user,
)
from mdstorm_backend.datasets.sample_access import Array
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.display import Described, Description
from mdstorm_backend.elastic.sampling import as_integer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, StateMismatchError
from mdstorm_backend.format import MAX_IMAGE_BYTES
from mdstorm_backend.loaders import Segment, arguments
from mdstorm_backend.loaders.agreement import warn_of_samples
from mdstorm_backend.loaders.torch.dataset_info import DatasetInfo
from mdstorm_backend.loaders.torch.dataset_settings import DatasetSettings, take_streams
from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset
from mdstorm_backend.loaders.torch.sample_iteration import SampleIteration
from mdstorm_backend.loaders.torch.sample_states import state_dict
from mdstorm_backend.loaders.torch.samples import of_batch
from mdstorm_backend.order import DEFAULT_SEED, Order
from mdstorm_backend.read import Block, Transform, check_num_epochs
from mdstorm_backend.read.reader import check_batch_size
from mdstorm_backend.storage import MAX_FILE_BYTES

if TYPE_CHECKING:
    from typing_extensions import Self


def _check_transform(_: str, value: object) -> None:
    if not (callable(value) and hasattr(value, "columns")):
        raise ArgumentTypeError(
            "transform must be callable and have an attribute `columns`, the names of the "
            f"columns that it returns; found {value!r}"
        )


@refuses_assigned_arguments
class StreamingDataset(Described, DatasetInfo, Array, IterableDataset[Any]):
    """Samples of MDS datasets, for `StreamingDataLoader` or for a plain ``DataLoader``.

    The arguments up to `stream_config` are those of MosaicML Streaming, and so are the samples of
    every epoch, rank and batch. Datasets and processes share only the files; no process group is
    created or needed.

    Copies in the workers of a ``DataLoader`` read an epoch together. If the loader has the same
    `batch_size` as the dataset, batch i comes from worker i modulo the number of workers, and that
    number does not change the order.

    Parameters
    ----------
    streams : sequence of Stream, optional
        The datasets to read together. Without it, `remote`, `local` or both specify a single
        dataset.
    remote : str, optional
        URL or path of the dataset.
    local : str, optional
        Local directory: the dataset itself or, with `remote`, the directory in which its shards are
        cached. Without it, shards on a local disk are read in place, and others are cached in the
        default cache directory: see `CacheOptions`.
    split : str, optional
        Subdirectory to read.
    download_retry : int
        Number of attempts at a download, including the first.
    download_timeout : float
        Number of seconds that a download may wait without receiving data.
    validate_hash : str, optional
        Hash to verify shards with, which the index must record.
    keep_zip : bool
        Whether to keep compressed files alongside the decompressed shards.
    epoch_size : int or str, optional
        Number of samples in an epoch over all ranks, also as ``"10k"``; by default all.
    predownload : int, optional
        Number of samples whose shards are opened ahead of use; it never slows down reading. By
        default, and always in the exact order, 256 MiB of shards are downloaded ahead, in 2 to 64
        shards, or half of the `cache_limit` if that is less.
    cache_limit : int or str, optional
        Maximum size in bytes of the cached shards of each stream, also as ``"10gb"``.
    sampling_method, sampling_granularity, partition_algo, num_canonical_nodes, batch_size, shuffle,
    shuffle_algo, shuffle_seed, shuffle_block_size, batching_method, replication
        See `mdstorm_backend.elastic.ElasticOrder`. `batch_size` is the loader's batch size; with a
        `StreamingDataLoader`, which has its own, you can leave it out.
    allow_unsafe_types : bool
        Whether to unpickle columns with the encoding ``pkl``. Whoever wrote them can run code on
        this machine.
    stream_name : str
        The kind of the single stream, as a name in `streams_registry`.
    stream_config : dict, optional
        Other arguments of the single `Stream`.
    order : Order, optional
        The order of the samples and this process's share, instead of the arguments for them;
        by default elastic. Unless the order sets them, rank and world size come from
        ``torch.distributed`` or the launcher's environment: see `find_world`. They are determined
        by ``len``, by states, and at the beginning of each iteration, for the whole iteration. With
        an order, nothing is opened before the first use.
    columns : sequence of str, optional
        Columns to read; all by default.
    num_epochs, workers, prefetch
        See `ReaderOptions`.
    transform : Transform, optional
        Is called with the rows of batches, or with those of shards if it may drop rows, after nulls
        are filled, files read and images decoded.
    storage_options : dict, optional
        Arguments for the fsspec file system.
    world : (int, int), DeviceMesh or (DeviceMesh, str), optional
        Rank and number of ranks that read different rows, if some processes read the same rows, as
        in tensor-parallel training: a pair, a ``DeviceMesh`` with one dimension, or a mesh with the
        name of its data-parallel dimension. By default, the world is found when a pass begins.
    decode : str or list of str, optional
        Columns of images to decode to RGB, as uint8 arrays ``(height, width, 3)``, which batches
        stack: binary columns of image files and, in a `StreamingDataset`, columns with the
        encodings ``jpeg``, ``png`` and ``pil``. Filters and predicates get the files, and a
        transform gets the decoded images.
    size : int or (int, int), optional
        Height and width of the decoded images. Each image is resized to cover this size and
        then center-cropped. By default, all images in a batch must have the same shape.
    max_image_bytes : int, optional
        Maximum decoded size of one image in bytes, 256 MiB by default. This limit exists
        because a small file can declare any size.
    fill_nulls : mapping of str to value, optional
        For each column, the value that replaces nulls.
    null_masks : sequence of str
        Columns for which a boolean column ``<name>_is_null`` is added.
    check_ranks : bool
        Whether to detect when ranks in a process group read different data, or begin an epoch
        with different seeds, batch sizes or states. The ranks compare these through the group's
        store, without waiting for each other. Different seeds in the elastic order raise an
        error, and other differences issue a warning.
    on_corrupt : {"raise", "skip"}
        Whether to raise `CorruptDatasetError` for a damaged shard, row group, sample or image, and
        for one of the `files` that does not exist, or to omit the rows from their batches, log
        them, and count them in a loader's ``statistics()``. The number of batches stays the same; a
        batch without other rows is empty. Single samples always raise the error.
    rows : sequence of int, slice or boolean array, optional
        Numbers of the rows to read, from 0 in stored order over all streams: an epoch consists of
        exactly these rows, which are shared, shuffled and resumed like a whole dataset. Numbers
        may be repeated. Without shuffling, the rows keep their order.
    where : list of tuple, list of list of tuple or pyarrow.compute.Expression, optional
        Conditions on columns, as tuples ``(column, operator, value)`` or as an expression: an epoch
        consists of exactly the rows that match, among `rows` if given, and all ranks have equal
        batches. Each machine evaluates them once, and keeps the result in its cache.
    weights : str or sequence of float, optional
        Column with a weight for each row, or one weight for each row of the dataset, from 0 in
        stored order. An epoch then has as many rows as the dataset or `epoch_size`, and each row
        comes as often as its weight states relative to the others: ⌊e⌋ or ⌈e⌉ times if e is
        expected, never if its weight is 0. Each machine reads the column once.
    balance : str, optional
        Column of classes, which then come equally often in an epoch, as with `weights`.
    row_numbers : str, optional
        Name of a column to add, int64, with the number of each row in the dataset, from 0 in stored
        order over all streams. `rows` takes these numbers, and ``trace`` returns them. They hold
        for one version of a table.
    files : mapping of str to str, optional
        Columns to add, each with the content of the files whose paths or URLs a column of strings
        names, as bytes: ``{"image": "path"}``. Files are read ahead of use, and relative paths
        begin at the dataset's directory. Filters and predicates get only the paths. A null path
        gives a null.
    files_below : list of str or mapping of str to dict, optional
        Directories outside of the dataset's own from which `files` may be read, as URLs or paths,
        such as ``["/Volumes/main/images/"]``; a mapping also has the storage options of each.
    max_file_bytes : int, optional
        Maximum size of one of the `files` in bytes, 256 MiB by default.

    Attributes
    ----------
    streams : list of Stream
        The streams.

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type.
    InvalidArgumentError
        If an argument has an invalid value, or arguments cannot be combined.
    DatasetNotFoundError
        If there is no dataset.

    Examples
    --------
    >>> from mdstorm_backend import MDSWriter, StreamingDataLoader
    >>> with MDSWriter(out="/tmp/streamed", columns={"x": "int"}) as writer:
    ...     for x in range(6):
    ...         writer.write({"x": x})
    >>> dataset = StreamingDataset(local="/tmp/streamed", batch_size=3)
    >>> dataset[4]
    {'x': 4}
    >>> [batch["x"].tolist() for batch in StreamingDataLoader(dataset, batch_size=3)]
    [[0, 1, 2], [3, 4, 5]]
    """

    @suggests_keywords
    def __init__(
        self,
        *,
        streams: Sequence[Stream] | None = None,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        download_retry: int = 2,
        download_timeout: float = 60,
        validate_hash: str | None = None,
        keep_zip: Annotated[bool, check_flag] = False,
        epoch_size: int | str | None = None,
        predownload: Annotated[int | None, partial(as_integer, at_least=0)] = None,
        cache_limit: int | str | None = None,
        sampling_method: str = "balanced",
        sampling_granularity: int = 1,
        partition_algo: str = "relaxed",
        num_canonical_nodes: int | None = None,
        batch_size: Annotated[int | None, lambda _, value: check_batch_size(value)] = None,
        shuffle: bool = False,
        shuffle_algo: Literal["naive", "py1s", "py2s", "py1br", "py1e"] = "py1e",
        shuffle_seed: int = DEFAULT_SEED,
        shuffle_block_size: int | None = None,
        batching_method: str = "random",
        allow_unsafe_types: Annotated[bool, check_flag] = False,
        replication: int | None = None,
        stream_name: str = "stream",
        stream_config: Annotated[dict[str, Any] | None, check_mapping] = None,
        order: Order | None = None,
        columns: Annotated[Sequence[str] | None, check_names] = None,
        num_epochs: Annotated[int | None, lambda _, value: check_num_epochs(value)] = 1,
        transform: Annotated[Transform | None, _check_transform] = None,
        decode: arguments.Decode = None,
        size: arguments.Size = None,
        max_image_bytes: arguments.MaxImageBytes = MAX_IMAGE_BYTES,
        fill_nulls: arguments.FillNulls = None,
        null_masks: arguments.NullMasks = (),
        check_ranks: arguments.CheckRanks = True,
        on_corrupt: arguments.OnCorrupt = "raise",
        workers: Annotated[int, partial(as_integer, at_least=0)] = 2,
        prefetch: Annotated[int, partial(as_integer, at_least=0)] = 4,
        storage_options: dict[str, Any] | None = None,
        world: Any = None,
        rows: arguments.Rows = None,
        where: arguments.Where = None,
        weights: arguments.Weights = None,
        balance: arguments.Balance = None,
        row_numbers: arguments.RowNumbers = None,
        files: arguments.Files = None,
        files_below: arguments.FilesBelow = None,
        max_file_bytes: arguments.MaxFileBytes = MAX_FILE_BYTES,
    ) -> None:
        super().__init__()
        found = dict(locals())
        given = {name: found[name] for name in keywords_of(StreamingDataset.__init__)}
        StreamingDataset._mdstorm_check(given)
        settings = StreamingDataset._mdstorm_settings(**given).checked()
        if predownload is not None and batch_size is not None and predownload < batch_size:
            warn_user(
                f"predownload < batch_size ({predownload} < {batch_size}): training may wait "
                "while the shards of a batch are downloaded. Pass at least batch_size, or leave "
                "predownload out"
            )
        # A subclass may have set an attribute of any name on the instance.
        self._mdstorm = OpenedDataset(settings)
        if order is None:
            _ = self._mdstorm.options  # opens the data, to raise any errors here

    _mdstorm_check = staticmethod(checker_of(__init__))
    _mdstorm_defaults = defaults_of(__init__)

    @classmethod
    def _mdstorm_settings(cls, **arguments: Any) -> DatasetSettings:
        """Return the settings for checked arguments, and the defaults of the others."""
        arguments = {**cls._mdstorm_defaults, **arguments}
        streams = take_streams(arguments)
        return DatasetSettings(streams=streams, **arguments)

    def _mdstorm_description(self, *, full: bool) -> Description:
        return self._mdstorm.description(full=full)

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return one sample by its number in stored order, with the same values as iteration.

        The transform is not applied, because it works on whole batches of samples.
        """
        return self._mdstorm.sample_maker(sample_id)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        # In a worker, the iteration begins here; otherwise, when its first sample is requested.
        return samples_of_iteration(self, None if info is None else self._mdstorm.begin_part(info))

    def __copy__(self) -> Self:
        """Return a copy that has its own settings but shares the epoch counter."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _mdstorm=copy(self._mdstorm))
        return other

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the next iteration, over samples or by a loader, begins with.

        Call this between iterations, because states after an iteration's next batch ignore it. An
        iteration that resumes from a loaded state still does so if the state is in this epoch, or
        in a pass with a fixed number of epochs that contains it.
        """
        self._mdstorm.set_epoch(epoch)

    def state_dict(
        self, num_samples: int | None = None, from_beginning: bool = True
    ) -> dict[str, Any]:
        """Return the reading position, for `load_state_dict`.

        Without arguments, this is the position of the latest iteration, over samples in this
        process or by a `StreamingDataLoader`. With arguments, the caller states the position, as in
        MosaicML Streaming.

        Parameters
        ----------
        num_samples : int, optional
            Number of samples that all ranks together have received in the epoch or, in the exact
            order, in the pass, which may have several epochs.
        from_beginning : bool
            Whether `num_samples` counts from the beginning rather than from the loaded state.

        Raises
        ------
        InvalidArgumentError
            If `num_samples` is not an integer of at least 0.
        StateMismatchError
            If the position is not known, because workers of a plain ``DataLoader`` read the
            samples, a transform may have dropped some, or a loader counts items of an overridden
            ``__iter__`` that are not one sample each. A worker knows its own part, which is what
            torchdata's ``StatefulDataLoader`` requests.
        """
        if num_samples is not None:
            check_items_are_samples(self)
        return state_dict(self._mdstorm, num_samples, from_beginning)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Resume the next iteration from a state of this class or of MosaicML's.

        After the last sample of an epoch, the next epoch begins. The state's seed and canonical
        nodes take precedence over the arguments.

        Raises
        ------
        StateMismatchError
            If the state was taken from a different dataset or order, or is not a state.
        """
        self._mdstorm.load_state_dict(obj)


def check_items_are_samples(dataset: StreamingDataset) -> None:
    """Raise StateMismatchError if the number of yielded items is not a number of samples."""
    if dataset._mdstorm.epochs.has_packs:
        raise StateMismatchError(
            f"{type(dataset).__name__}.__iter__ yields items that are not one sample each, so "
            "their number does not determine which samples were read: pack, split or leave out "
            "samples in a collate_fn, or override the loader's _get_batch_size to count the "
            "samples of a batch"
        )


def samples_of_iteration(dataset: StreamingDataset, begun: SampleIteration | None) -> Iterator[Any]:
    """Yield the samples of `begun`, or of an iteration that begins on the first request."""
    iteration = begun or dataset._mdstorm.begin_samples()
    for segment, part in iteration.segments():
        if part == 0:
            warn_of_samples(segment, dataset._mdstorm.settings.batch_size)
        for block in blocks_of(dataset, segment, part):
            for samples in iteration.parts(block, samples_of(dataset, block)):
                for sample in samples:
                    iteration.yielded += 1
                    yield sample


def blocks_of(
    dataset: StreamingDataset, segment: Segment, part: int = 0, *, block_rows: int | None = None
) -> Iterator[Block]:
    """Return the blocks of one part of `segment`, for `samples_of`.

    Raises
    ------
    InvalidArgumentError
        If a subclass overrides ``__getitem__`` and there is a transform, because transformed rows
        have no sample numbers.
    """
    if not _is_read_by_sample(dataset):
        return segment.blocks(part, block_rows=block_rows)
    if dataset._mdstorm.options.steps.transform is not None:
        raise InvalidArgumentError(
            f"{type(dataset).__name__} overrides __getitem__ and has a transform, which would not "
            "be called: transform each sample in __getitem__, or do not override it"
        )
    return segment.blocks(part, block_rows=block_rows, unread=True)


def samples_of(dataset: StreamingDataset, block: Block) -> Iterator[Any]:
    """Yield the samples of a block one by one, from ``__getitem__`` if it is overridden.

    Keep a reference to the block during iteration, since the block keeps the shards open.
    """
    if _is_read_by_sample(dataset):
        make = dataset.__getitem__
        # A `map` would end, and lose the remaining samples, at a StopIteration in `__getitem__`.
        yield from (make(number) for number in block.numbers())
        return
    yield from of_batch(block.batch, dataset._mdstorm.options)


def _is_read_by_sample(dataset: StreamingDataset) -> bool:
    """Whether samples are made one by one rather than sliced from whole columns."""
    if makes_samples(dataset):
        return True
    opened = dataset._mdstorm
    maker = opened.sample_maker
    # Without columns, a batch does not have its number of rows.
    decodes = (maker.decodes and not maker.is_row) or not opened.options.output_columns
    return opened.options.steps.transform is None and decodes


def makes_samples(dataset: object) -> bool:
    """Whether a dataset overrides how single samples are made, which whole batches would bypass."""
    return overrides(dataset, StreamingDataset, "__getitem__", "get_item")
