"""`StreamingDataset`: one or several MDS datasets as a PyTorch dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import context, parent_process
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.datasets.joined_dataset import JoinedDataset
from mdstorm_backend.datasets.sample_access import pick
from mdstorm_backend.datasets.stream import Stream, StreamDefaults
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.dataset_arguments import (
    check_read_options,
    find_order,
    find_streams,
)
from mdstorm_backend.loaders.dataset_info import DatasetInfo
from mdstorm_backend.loaders.elastic_share import ElasticShare
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.reading import Leg, Reading, Worker
from mdstorm_backend.loaders.runner import reading_of
from mdstorm_backend.loaders.sample_maker import SampleMaker, of_batch
from mdstorm_backend.loaders.torch.second_split import refuse_second_split
from mdstorm_backend.loaders.torch.worker_guard import end_with_parent
from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder
from mdstorm_backend.order.world import World, find_world
from mdstorm_backend.read.batch_reader import check_batch_size, check_num_epochs
from mdstorm_backend.read.block import Block, Transform
from mdstorm_backend.read.source import SampleSource


class StreamingDataset(DatasetInfo, IterableDataset[Any]):
    """Samples of MDS datasets, for `StreamingDataLoader` or for a plain ``DataLoader``.

    The arguments up to `stream_config` are those of MosaicML Streaming, and so are the samples of
    every epoch, rank and batch. Nothing is shared with other datasets and other processes but the
    files; no process group is made or needed.

    Copies in the workers of a ``DataLoader`` read one epoch together: with its `batch_size` equal
    to the dataset's, batch i comes from worker i modulo their number, and no number of workers
    changes the order.

    Parameters
    ----------
    streams : sequence of Stream, optional
        The datasets to read together; otherwise `remote`, `local` or both name the only one.
    remote : str, optional
        URL or path of the dataset.
    local : str, optional
        Local directory: the dataset itself, or with `remote` where its shards are brought to.
        Without it they are read where they are if that is a local disk, and otherwise brought to
        the default cache directory, see `CacheOptions`.
    split : str, optional
        Sub-directory to read.
    download_retry : int
        Attempts at a download in total.
    download_timeout : float
        Seconds that a download may go without receiving anything.
    validate_hash : str, optional
        Hash by which shards are checked; the index has to record it.
    keep_zip : bool
        Whether compressed files stay beside the decompressed shards.
    epoch_size : int or str, optional
        Samples of an epoch over all ranks, also as ``"10k"``; by default all.
    predownload : int, optional
        Samples whose shards are opened ahead of use. It never slows reading down.
    cache_limit : int or str, optional
        Bytes that the cached shards of each stream may take, also as ``"10gb"``.
    sampling_method, sampling_granularity, partition_algo, num_canonical_nodes, batch_size, shuffle,
    shuffle_algo, shuffle_seed, shuffle_block_size, batching_method, replication
        See `mdstorm_backend.elastic.ElasticOrder`. `batch_size` is that of the loader; it can be
        left out with a `StreamingDataLoader`, which has one.
    allow_unsafe_types : bool
        Unpickle columns with the encoding ``pkl``. Whoever wrote them can run code of theirs here.
    stream_name : str
        ``"stream"``, the only kind of stream there is.
    stream_config : dict, optional
        Further arguments of the only `Stream`.
    order : ExactOrder or ElasticOrder, optional
        The order of the samples and this process's share of it, instead of the arguments for them.
        By default the order is elastic, and the rank and world size come from ``torch.distributed``
        or the launcher's environment, see `find_world`: they are asked for by ``len``, by states,
        and when an iteration begins, which keeps them to its end. Then nothing is opened before the
        first use.
    columns : sequence of str, optional
        Columns to read; all by default.
    num_epochs, transform, fill_nulls, null_masks, workers, prefetch
        See `ReaderOptions`.
    storage_options : dict, optional
        Arguments of the fsspec file system.

    Attributes
    ----------
    streams : list of Stream
        The streams.

    Raises
    ------
    ArgumentTypeError
        If arguments have another type.
    InvalidArgumentError
        If arguments are outside of their domain or do not go together.
    DatasetNotFoundError
        If there is no dataset.
    """

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
        keep_zip: bool = False,
        epoch_size: int | str | None = None,
        predownload: int | None = None,
        cache_limit: int | str | None = None,
        sampling_method: str = "balanced",
        sampling_granularity: int = 1,
        partition_algo: str = "relaxed",
        num_canonical_nodes: int | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        shuffle_algo: str = "py1e",
        shuffle_seed: int = DEFAULT_SEED,
        shuffle_block_size: int | None = None,
        batching_method: str = "random",
        allow_unsafe_types: bool = False,
        replication: int | None = None,
        stream_name: str = "stream",
        stream_config: dict[str, Any] | None = None,
        order: ExactOrder | ElasticOrder | ElasticShare | None = None,
        columns: Sequence[str] | None = None,
        num_epochs: int | None = 1,
        transform: Transform | None = None,
        fill_nulls: Mapping[str, Any] | None = None,
        null_masks: Sequence[str] = (),
        workers: int = 2,
        prefetch: int = 4,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        #: The process that has sent this copy to one that it was starting, and its world.
        self._sent: tuple[int, World] | None = None
        #: Samples of the iteration that was begun last, in the elastic order of its last epoch.
        self._yielded = 0
        self.streams = find_streams(streams, remote, local, stream_name, stream_config)
        self._defaults = StreamDefaults(
            split=split,
            download_retry=download_retry,
            download_timeout=download_timeout,
            validate_hash=validate_hash,
            keep_zip=keep_zip,
            cache_limit=cache_limit,
            allow_unsafe_types=allow_unsafe_types,
            storage_options=storage_options,
        )
        if batch_size is not None:
            check_batch_size(batch_size)
        self.batch_size = batch_size
        settings = {
            "shuffle": shuffle,
            "shuffle_algo": shuffle_algo,
            "shuffle_seed": shuffle_seed,
            "shuffle_block_size": shuffle_block_size,
            "partition_algo": partition_algo,
            "num_canonical_nodes": num_canonical_nodes,
            "batching_method": batching_method,
            "sampling_method": sampling_method,
            "sampling_granularity": sampling_granularity,
            "epoch_size": epoch_size,
            "replication": replication,
        }
        self.order = find_order(order, batch_size, settings, self.streams)
        check_num_epochs(num_epochs)
        self.num_epochs = num_epochs if num_epochs is None else int(num_epochs)
        threads: dict[str, Any] = {
            "workers": workers,
            "prefetch": prefetch,
            "predownload": predownload,
        }
        check_read_options(columns=columns, null_masks=null_masks, transform=transform, **threads)
        self._read_options: dict[str, Any] = {
            "columns": None if columns is None else tuple(columns),
            "num_epochs": self.num_epochs,
            "transform": transform,
            "fill_nulls": fill_nulls,
            "null_masks": tuple(null_masks),
            **threads,
        }
        if order is None:
            _ = self.reading  # copies in worker processes are to count the same epochs

    @cached_property
    def parts(self) -> list[Dataset]:
        """The dataset of each stream, opened on first use."""
        return [stream.open(self._defaults) for stream in self.streams]

    @cached_property
    def dataset(self) -> SampleSource:
        """The data, opened on first use."""
        return self.parts[0] if len(self.parts) == 1 else JoinedDataset(self.parts)

    @cached_property
    def options(self) -> ReaderOptions:
        """How it is read."""
        if isinstance(self.order, ElasticShare) and not self.order.streams:
            self.order = self._weighed(self.order)
        return ReaderOptions(self.dataset, self.order, **self._read_options)

    def _weighed(self, share: ElasticShare) -> ElasticShare:
        """Work out what each stream has of an epoch."""
        shapes = tuple(s.shape(d) for s, d in zip(self.streams, self.parts, strict=True))
        weights = share.order.weights(shapes)
        for stream, weight in zip(self.streams, weights, strict=True):
            stream.derive(weight)
        return replace(share, streams=shapes)

    @cached_property
    def reading(self) -> Reading:
        """How its order is read."""
        return reading_of(self.options)

    def go_on_with(self, reading: Reading) -> None:
        """Read as `reading` does from now on: in the order of a state."""
        self.reading, self.options, self.order = reading, reading.options, reading.options.order

    def __len__(self) -> int:
        """Samples of this rank in one epoch."""
        return self.reading.rows_per_epoch

    @property
    def length(self) -> int:
        """The same as ``len``."""
        return len(self)

    @property
    def epoch_size(self) -> int:
        """Samples of an epoch over all ranks."""
        return self.reading.epoch_size

    @property
    def next_epoch(self) -> int:
        """Number of the epoch that is begun next."""
        return self.reading.next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self.reading.next_epoch = epoch

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration begins, over samples or by a loader.

        One that goes on where a state was taken does so still, if that is in this epoch. In the
        exact order the workers of a plain ``DataLoader`` begin with that of the dataset they were
        copied from.
        """
        self.reading.next_epoch = epoch

    def state_dict(
        self, num_samples: int | None = None, from_beginning: bool = True
    ) -> dict[str, Any]:
        """Return where reading stands, for `load_state_dict`.

        Without arguments that is where the iteration stands that was begun last, over samples in
        this process or by a `StreamingDataLoader`. With them, as in MosaicML Streaming, the caller
        says it.

        Parameters
        ----------
        num_samples : int, optional
            Samples that all ranks together have had of the epoch; in the exact order of the pass,
            which may be of several epochs.
        from_beginning : bool
            Whether that is counted from the beginning, or from where a loaded state began.

        Raises
        ------
        StateMismatchError
            If nobody knows: the samples are read by workers of a plain ``DataLoader``, or a
            transform may have dropped some.
        """
        if num_samples is not None:
            return self.reading.state_dict(num_samples, from_beginning)
        if get_worker_info() is not None:
            raise StateMismatchError(
                "a worker knows only of its own samples: use a StreamingDataLoader and its "
                "state_dict(), or num_workers=0"
            )
        return self.reading.state_of_samples(self._yielded)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Let the next iteration go on where a state was taken, by this class or MosaicML's.

        After the last sample of an epoch that is the next one. The state's seed and canonical nodes
        go before the arguments'.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or order, or is no state.
        """
        self.reading.load_state_dict(obj)
        self._yielded = 0
        self.go_on_with(self.reading)

    def __getitem__(self, at: Any) -> Any:
        """Return samples by number: one for an integer, a list for a slice, list or array.

        Only the transform is not called: it works on many samples at a time.

        Raises
        ------
        IndexError
            If there is no such sample.
        """
        return pick(at, len(self.dataset), self.get_item)

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return one sample by its number in stored order, with the values that iterating gives."""
        return self._sample(sample_id)

    @cached_property
    def _sample(self) -> SampleMaker:
        return SampleMaker(self.options)

    def __iter__(self) -> Iterator[Any]:
        refuse_second_split(self, self._count_ranks)
        info = get_worker_info()
        if info is not None:
            end_with_parent()
        worker = (
            Worker()
            if info is None
            else Worker(
                info.id, info.num_workers, group=info.seed - info.id, world=self._world_of_parent()
            )
        )
        for leg in self.reading.own_legs(self.batch_size, worker):
            self._yielded = 0
            for block in self.sample_blocks(leg, worker.number):
                for sample in self.samples(block):
                    self._yielded += 1
                    yield sample

    def __getstate__(self) -> dict[str, Any]:
        """Tell the world to a process that is being started, which may be a worker."""
        sent = context.get_spawning_popen() is not None and self.order.follows_world
        if sent:
            refuse_second_split(self, self._count_ranks)
        return {**self.__dict__, "_sent": (os.getpid(), find_world()) if sent else None}

    def _count_ranks(self) -> int:
        return find_world().size if self.order.follows_world else self.order.world_size

    def _world_of_parent(self) -> World | None:
        """Return what the process said whose worker this is; a fork knows it by itself."""
        parent = parent_process()
        if self._sent is None or parent is None or parent.pid != self._sent[0]:
            return None
        return self._sent[1]

    def sample_blocks(
        self, leg: Leg, part: int = 0, *, block_rows: int | None = None
    ) -> Iterator[Block]:
        """Yield the blocks of a part of `leg`, for `samples`.

        Raises
        ------
        InvalidArgumentError
            If the samples come from a method of a subclass and there is a transform, whose rows
            have no numbers.
        """
        if not self._makes_samples:
            return leg.blocks(part, block_rows=block_rows)
        if self.options.transform is not None:
            raise InvalidArgumentError(
                f"{type(self).__name__} overrides __getitem__ and has a transform, which would not "
                "be called: transform each sample in __getitem__, or do not override it"
            )
        return leg.planned(part, block_rows=block_rows)

    def samples(self, block: Block) -> Iterator[Any]:
        """Yield the samples of a block one by one, made by ``__getitem__`` where it is overridden.

        Hold the block meanwhile: that keeps its shards open.
        """
        if self._makes_samples:
            yield from map(self.__getitem__, block.numbers())
            return
        yield from of_batch(block.batch, self.options)

    @property
    def _makes_samples(self) -> bool:
        """Whether samples are made one by one, rather than cut out of whole columns."""
        return overrides(type(self)) or (self.options.transform is None and self._sample.decodes)


def overrides(class_: type) -> bool:
    """Whether a subclass makes samples of its own, which whole batches would pass by."""
    return any(
        getattr(class_, method) is not getattr(StreamingDataset, method)
        for method in ("__getitem__", "get_item")
    )
