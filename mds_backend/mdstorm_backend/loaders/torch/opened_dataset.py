"""The data behind a `StreamingDataset`, opened on first use, and the reading position."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from math import lcm
from multiprocessing import context, parent_process
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from mdstorm_backend import loaders
from mdstorm_backend.base import cached_property
from mdstorm_backend.datasets import Dataset, describe_place, open_streams
from mdstorm_backend.display import Description
from mdstorm_backend.elastic import ElasticOrder, ElasticShare, StreamShape
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.format import parse_size
from mdstorm_backend.loaders.epochs import Epochs, Worker
from mdstorm_backend.loaders.schedule import SAMPLES_AT_A_TIME
from mdstorm_backend.loaders.torch.samples import SampleMaker, WorkerPart, is_of_worker
from mdstorm_backend.order import ExactOrder, World, find_world
from mdstorm_backend.read import ImageDecoder, SampleSource

if TYPE_CHECKING:
    from typing_extensions import Self

#: Settings with which the data are opened.
_OPENED_WITH = ("streams", "cache_limit", "allow_unsafe_types")
#: Settings that the first epoch determines if they were not given, or that a state may contain.
_SETTLED = ("num_canonical_nodes", "shuffle_block_size", "shuffle_seed")


class OpenedDataset:
    """The data, settings and position of a `StreamingDataset`; the data are opened on first use.

    Parameters
    ----------
    settings : DatasetSettings
        The arguments of the dataset.

    Attributes
    ----------
    settings : DatasetSettings
        The current settings: the arguments, and changes made since.
    order : ExactOrder or ElasticShare
        The order of the samples, and this process's share of them.
    """

    #: Samples yielded by the latest iteration; in the elastic order, of its latest epoch.
    yielded = 0
    #: How many of these samples `record_items` has accounted for.
    noted = 0
    #: In a worker process of a plain ``DataLoader``: the worker's part, and the state from which
    #: the next iteration resumes.
    _part: WorkerPart | None = None
    _part_state: Mapping[str, Any] | None = None
    #: The process id and the world of the process that sent this copy to a process it spawned.
    _sent: tuple[int, World] | None = None

    def __init__(self, settings: loaders.DatasetSettings) -> None:
        self.settings = settings
        self.order = settings.new_order()
        #: Created before the data are opened, which may happen only in a worker process.
        self._epochs = Epochs()

    def description(self, *, full: bool) -> Description:
        """Return the description of the dataset; at most a local index is opened for it."""
        opened, order = self.__dict__.get("dataset"), self.order
        if opened is not None:
            found, size = loaders.describe_data(opened, full=full), len(opened)
            options = self.__dict__.get("options")
            shown = options.shown if options else ()
            return loaders.in_order(found, order, size, shown, is_output=self.is_output)
        places = ", ".join(
            f"{stream.remote or stream._mdstorm.own('local')}" for stream in self.settings.streams
        )
        full = full and len(self.settings.streams) == 1
        found = describe_place(places, self.settings.storage_options, full=full)
        return loaders.in_order(found, order, is_output=self.is_output)

    def is_output(self, name: str) -> bool:
        """Whether a stored column is an output column, if known before the data are opened."""
        options, chosen = self.__dict__.get("options"), self.settings.columns
        return name in options.output_columns if options else chosen is None or name in chosen

    @cached_property
    def parts(self) -> list[Dataset]:
        """The dataset of each stream, opened on first use."""
        settings = self.settings
        parts = [open_streams.open_stream(stream, settings) for stream in settings.streams]
        open_streams.check_columns(parts, settings.columns)
        if not settings.allow_unsafe_types:
            for part in parts:
                open_streams.refuse_unsafe_types(part, settings.columns)
        return parts

    @cached_property
    def dataset(self) -> SampleSource:
        """The data, opened on first use."""
        return self.parts[0] if len(self.parts) == 1 else open_streams.JoinedDataset(self.parts)

    def _stream_shapes(self) -> tuple[StreamShape, ...]:
        pairs = zip(self.settings.streams, self.parts, strict=True)
        return tuple(stream._mdstorm.shape(*part.shard_sizes) for stream, part in pairs)

    @cached_property
    def options(self) -> loaders.ReaderOptions:
        """The options for reading the data."""
        settings = self.settings
        self.order, weights = self.order.of_streams(self._stream_shapes)
        for stream, weight in zip(settings.streams, weights, strict=False):  # none if known before
            stream._mdstorm.derive(weight)
        options = loaders.ReaderOptions(self.dataset, self.order, **settings.read_options)
        if not settings.decode:
            return options
        images = ImageDecoder.of(
            *(options.schema, settings.decode, settings.size, settings.null_masks),
            settings.max_image_bytes,
        )
        transform = options.transform and images.before(options.transform)
        return replace(options, images=images, transform=transform)

    @cached_property
    def schedule(self) -> loaders.Schedule:
        """The schedule of the passes over the data."""
        return loaders.Schedule(self.options, self._epochs)

    @cached_property
    def sample_maker(self) -> SampleMaker:
        """The maker of single samples."""
        return SampleMaker(self.options)

    def in_order(self, order: ExactOrder | ElasticShare) -> Self:
        """Return a copy that reads in another order, or another share of the order."""
        other = copy(self)
        other.order = order
        other._epochs = Epochs()
        other.__dict__.pop("options", None)
        if other.__dict__.pop("schedule", None) is not None:
            other.schedule.next_epoch = self.schedule.next_epoch
        return other

    def twin(self) -> Self:
        """Return a copy with independent settings that uses the same epoch counter."""
        other = copy(self)
        if "schedule" in other.__dict__:
            other.schedule = copy(self.schedule)
        return other

    def shown(self, name: str) -> Any:
        """Return the value of a setting as the attribute of that name reports it."""
        if name == "epoch_size":
            return self.schedule.plan().num_samples
        if name == "predownload":
            return self.settings.least_ahead
        if name == "streams":
            return list(self.settings.streams)
        if name == "cache_limit":
            limit = self.settings.cache_limit
            return parse_size(limit) if isinstance(limit, str) else limit
        settled = self._settled() if name in _SETTLED else None
        return getattr(self.settings if settled is None else settled, name)

    def change(self, name: str, value: Any) -> None:
        """Change a setting for the iterations that begin from now on.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If the constructor would raise it for the same value.
        """
        settings = replace(self.settings, **{name: value})
        if settings.order is None:
            elastic, before = settings.elastic_order(), self.order
            if (settled := self._settled()) is not None:
                kept = {key: getattr(settled, key) for key in _SETTLED if key != name}
                elastic = replace(elastic, order=replace(elastic.order, **kept))
                self.schedule.epochs.forget_order()
            follows = bool(before.follows_world)
            self.order = replace(elastic, world=before.world, follows_world=follows)
        self.settings = settings
        if name in _OPENED_WITH:
            for opened in ("parts", "dataset"):
                self.__dict__.pop(opened, None)
        for derived in ("options", "sample_maker"):
            self.__dict__.pop(derived, None)
        if "schedule" in self.__dict__:
            self.schedule.options = self.options  # a running pass keeps its own

    def _settled(self) -> ElasticOrder | None:
        """Return the elastic order with the settings of the latest epoch; None before the first."""
        schedule, order = self.__dict__.get("schedule"), self.order
        begun = None if schedule is None else schedule.epochs.begun
        if begun is None:
            return None
        here = order.share_of(find_world()) if order.follows_world else order
        return here.resumed(begun)

    @property
    def has_explicit_share(self) -> bool:
        """Whether the share is fixed by the arguments rather than found from the world."""
        return not self.order.follows_world

    def shared(self) -> Self:
        """Return this dataset: its order already gives each rank its share."""
        return self

    def count_ranks(self) -> int:
        """Return the number of ranks that the samples are divided among."""
        return find_world().size if self.order.follows_world else self.order.world_size

    def state_dict(
        self, num_samples: int | None = None, from_beginning: bool = True
    ) -> dict[str, Any]:
        """Return the reading position: see `StreamingDataset.state_dict`."""
        if num_samples is not None:
            self.check_batches(num_samples)
            return self.schedule.state_dict(num_samples, from_beginning)
        if get_worker_info() is not None:
            if self._part is None:
                raise StateMismatchError(
                    "this worker process has not begun to read, and knows no other position: "
                    "request the state after iterating over the dataset there"
                )
            return self._part.state_dict()
        return self.schedule.state_of_samples(self.yielded)

    def record_items(self, count: int) -> None:
        """Record packs if `count` items of an overridden ``__iter__`` are not one sample each."""
        here = self._part or self
        if here.yielded - here.noted != count:
            self.schedule.epochs.record_packs()
        here.noted = here.yielded

    def check_batches(
        self, num_samples: int, batch_size: int | None = None, num_workers: int = 0
    ) -> None:
        """Raise StateMismatchError if `num_samples` ends within a batch of the worker processes.

        For a loader with another `batch_size`, each worker must have yielded the same number of
        samples, in whole batches of both sizes.
        """
        size, schedule = self.settings.batch_size or SAMPLES_AT_A_TIME, self.schedule
        num_workers = max(num_workers, schedule.epochs.num_joined)
        if num_workers < 2:
            return
        whole = size
        if batch_size not in (None, size):
            whole = lcm(size, batch_size) * num_workers
        plan = schedule.plan()
        samples = num_samples // plan.num_ranks
        if samples % whole and samples < plan.rows_per_epoch:
            raise StateMismatchError(
                f"after {samples} samples on this rank, worker processes stand within batches of "
                f"{size}, by which they divide the samples. Which ones they have yielded is not "
                "known: give the dataset the batch_size of the DataLoader"
            )

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Resume the next iteration from a state: see `StreamingDataset.load_state_dict`."""
        if is_of_worker(obj):
            if get_worker_info() is None:
                raise StateMismatchError(
                    "the state is that of one worker process, which read a part of the samples: "
                    "load the state of the whole loader, StatefulDataLoader.load_state_dict, with "
                    "the same number of workers"
                )
            self._part_state = obj
            return
        self.schedule.load_state_dict(obj, loaders.Batching(self.settings.batch_size or 1))
        self.yielded = 0

    def begin_part(self, info: Any) -> WorkerPart:
        """Begin an iteration in a worker process of a plain ``DataLoader``.

        Parameters
        ----------
        info : object
            The result of `torch.utils.data.get_worker_info`.
        """
        parent, world = parent_process(), None  # a fork finds the world on its own
        if self._sent is not None and parent is not None and parent.pid == self._sent[0]:
            world = self._sent[1]
        group = info.seed - info.id
        worker = Worker(info.id, info.num_workers, group=group, world=world)
        state, self._part_state = self._part_state, None
        self._part = WorkerPart(self.schedule, self.settings.batch_size, worker, state)
        return self._part

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; for a process being spawned, it includes the world."""
        sent = context.get_spawning_popen() is not None and self.order.follows_world
        place = (os.getpid(), find_world()) if sent else None
        return {**self.__dict__, "_sent": place, "_part": None}
