"""The data behind a `StreamingDataset`, opened on first use, and the reading position."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from multiprocessing import context, parent_process
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from mdstorm_backend import loaders
from mdstorm_backend.base import cached_property
from mdstorm_backend.base.worker_processes import end_with_parent
from mdstorm_backend.datasets import (
    Dataset,
    SampleDataset,
    add_columns,
    choose_rows,
    describe_place,
    open_streams,
)
from mdstorm_backend.display import Description
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.format import parse_size
from mdstorm_backend.kinds import explaining_absence
from mdstorm_backend.loaders.epochs import Epochs, Worker
from mdstorm_backend.loaders.torch.dataset_settings import DatasetSettings
from mdstorm_backend.loaders.torch.sample_iteration import (
    SampleIteration,
    is_of_worker,
)
from mdstorm_backend.loaders.torch.samples import SampleMaker
from mdstorm_backend.loaders.torch.torch_tensors import ConvertColumn, to_collated
from mdstorm_backend.order import Order, Plan, StreamShape, World, find_world
from mdstorm_backend.read import Steps

if TYPE_CHECKING:
    from typing_extensions import Self

#: Settings that take effect when the dataset is opened.
_OPENED_WITH = ("streams", "cache_limit", "allow_unsafe_types")


class OpenedDataset:
    """A `StreamingDataset`'s data, settings and position; the data are opened on first use.

    Parameters
    ----------
    settings : DatasetSettings
        The dataset's arguments.

    Attributes
    ----------
    settings : DatasetSettings
        The current settings: the arguments, with any changes made since.
    order : Order
        The order of the samples, and this process's share of them.
    """

    #: Converts columns to tensors.
    convert: ConvertColumn = staticmethod(to_collated)
    #: The latest iteration over samples; None if there has been none since a state was loaded.
    samples: SampleIteration | None = None
    #: In a worker process of a plain ``DataLoader``, the state to resume the next iteration from.
    _worker_state: Mapping[str, Any] | None = None
    #: The loader that began the latest iteration, or has since loaded a state or set the epoch.
    #: None once an iteration over samples has begun.
    latest: loaders.Loader | None = None
    #: The process id and world of the process that sent this copy to a worker it spawned.
    _sent: tuple[int, World] | None = None

    def __init__(self, settings: DatasetSettings) -> None:
        self.settings = settings
        self.order = settings.new_order()
        #: Where the next iteration begins. It exists before the data are opened, which may happen
        #: only in a worker process.
        self._epochs = Epochs()

    def description(self, *, full: bool) -> Description:
        """Return a description of the dataset, opening at most a local index."""
        opened, order = self.__dict__.get("dataset"), self.order
        if opened is not None:
            options = self.__dict__.get("options")
            opened, shown = (options.dataset, options.shown) if options else (opened, ())
            described, size = loaders.describe_data(opened, full=full), len(opened)
            return loaders.describe_order(described, order, size, shown, is_output=self.is_output)
        places = ", ".join(
            f"{stream.remote or stream._mdstorm.own('local')}" for stream in self.settings.streams
        )
        full = full and len(self.settings.streams) == 1
        described = describe_place(places, self.settings.storage_options, full=full)
        return loaders.describe_order(described, order, is_output=self.is_output)

    def is_output(self, name: str) -> bool:
        """Whether a stored column is an output column, as far as is known before opening."""
        options, chosen = self.__dict__.get("options"), self.settings.columns
        return name in options.output_columns if options else chosen is None or name in chosen

    @cached_property
    def parts(self) -> list[Dataset]:
        """The dataset of each stream, opened on first use."""
        settings = self.settings
        defaults = settings.stream_defaults
        with explaining_absence(settings.storage_options):
            parts = [open_streams.open_stream(stream, defaults) for stream in settings.streams]
        open_streams.check_columns(parts, settings.stored_columns)
        if not settings.allow_unsafe_types:
            for part in parts:
                open_streams.refuse_unsafe_types(part, settings.stored_columns)
        return parts

    @cached_property
    def dataset(self) -> SampleDataset:
        """The data, opened on first use."""
        return self.parts[0] if len(self.parts) == 1 else open_streams.JoinedDataset(self.parts)

    def _stream_shapes(self, dataset: SampleDataset) -> tuple[StreamShape, ...]:
        if dataset.chosen is not None:
            return (StreamShape(dataset.shard_sizes),)
        pairs = zip(self.settings.streams, self.parts, strict=True)
        return tuple(stream._mdstorm.shape(*part.shard_sizes) for stream, part in pairs)

    @cached_property
    def options(self) -> loaders.ReaderOptions:
        """The options for reading the data, in batches of one sample."""
        settings = self.settings
        chosen, is_shuffled = (settings.rows, settings.where), self.order.uses_seed
        dataset = choose_rows(self.dataset, *chosen, is_shuffled=is_shuffled)
        dataset = add_columns(dataset, vars(settings))
        is_chosen = dataset.chosen is not None
        self.order = self.order.over(self._stream_shapes(dataset), chosen=is_chosen)
        # Chosen rows are a single stream.
        for stream, weight in zip(settings.streams, self.order.stream_weights, strict=False):
            stream._mdstorm.derive(weight)
        splits = tuple(each._mdstorm.shown("split") for each in settings.streams)
        given = settings.fields_of(loaders.ReaderOptions)
        given |= {"dataset": dataset, "order": self.order, "batch_size": 1, "splits": splits}
        transform = settings.transform
        name = None if transform is None else type(transform).__qualname__
        recorded = self.order.recorded({"transform": name})
        given["conditions"] = loaders.Conditions(rows=dataset.chosen, **recorded)
        options = loaders.ReaderOptions(**given, steps=Steps.declared(vars(settings)))
        _ = options.reading.images  # raises errors about columns to decode
        return options

    @property
    def is_opened(self) -> bool:
        """Whether the data have been opened, as by reading, loading a state or setting an epoch."""
        return "options" in self.__dict__

    @property
    def epochs(self) -> Epochs:
        """Where the next iteration begins; the options determine the first iteration."""
        self._epochs.follow(self.options)
        return self._epochs

    def plan(self) -> Plan:
        """Return the plan for a first pass that begins now, in batches of one sample."""
        return self.options.in_world().first_plan

    def set_epoch(self, epoch: int) -> None:
        """Begin the next pass with `epoch`, unless the pass to be resumed contains that epoch."""
        self.epochs.set_next(epoch, self.options.num_epochs)
        if self.samples is not None:
            self.samples.replaced_after = self.samples.yielded

    @cached_property
    def sample_maker(self) -> SampleMaker:
        """The maker of single samples."""
        return SampleMaker(self.options)

    def in_order(self, order: Order) -> Self:
        """Return a copy that reads in `order` from the beginning, and only that order's share."""
        other = copy(self)
        other.order, other._epochs, other.latest, other.samples = order, Epochs(), None, None
        other.__dict__.pop("options", None)
        return other

    def shown(self, name: str) -> Any:
        """Return a setting's value as shown by the public attribute of the same name."""
        if name == "epoch_size":
            return self.plan().num_samples
        if name == "predownload":
            return self.settings.least_ahead
        if name == "streams":
            return list(self.settings.streams)
        if name == "cache_limit":
            limit = self.settings.cache_limit
            return parse_size(limit) if isinstance(limit, str) else limit
        settled = self._settled() if name in self.order.late_settings else {}
        return settled[name] if settled else getattr(self.settings, name)

    def change(self, name: str, value: Any) -> None:
        """Change a setting for iterations that begin from now on.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If the constructor would raise it for the same value.
        """
        settings = self.settings.changed(**{name: value})
        if settings.order is None and settings.weighting is not None:
            self.order = settings.new_order()
        elif settings.order is None:
            elastic, before = settings.elastic_order(), self.order
            if settled := self._settled():
                kept = {key: value for key, value in settled.items() if key != name}
                elastic = replace(elastic, **kept)
                self.epochs.forget_order()
            follows = bool(before.follows_world)
            self.order = replace(elastic, world=before.world, follows_world=follows)
        self.settings = settings
        if name in _OPENED_WITH:
            for opened in ("parts", "dataset"):
                self.__dict__.pop(opened, None)
        is_opened = self.__dict__.pop("options", None) is not None
        self.__dict__.pop("sample_maker", None)
        if is_opened:
            _ = self.options  # raises here if the setting cannot be used

    def _settled(self) -> dict[str, Any]:
        """Return the settings that the latest epoch has determined; none before any epoch."""
        start, order = self._epochs.epoch_start, self.order
        if start is None:
            return {}
        here = order.share_of(find_world()) if order.follows_world else order
        return here.shown_from(start)

    @property
    def has_explicit_share(self) -> bool:
        """Whether the share is fixed by the arguments rather than derived from the world."""
        return not self.order.follows_world

    def shared(self) -> Self:
        """Return this dataset, since its order already selects the share of each rank."""
        return self

    @property
    def num_ranks(self) -> int:
        """Number of ranks that read different samples."""
        return self.options.in_world().order.num_ranks

    def count_ranks(self) -> int:
        """Return the number of ranks that the samples are divided among."""
        return find_world().size if self.order.follows_world else self.order.world_size

    def record_items(self, count: int) -> None:
        """Record whether `count` items from an overridden ``__iter__`` are not single samples."""
        samples = self.samples
        if samples is None or samples.yielded - samples.noted != count:
            self.epochs.record_packs()
        if samples is not None:
            samples.noted = samples.yielded

    @property
    def samples_at_a_time(self) -> int:
        """Number of samples that a worker process reads at a time."""
        return self.settings.batch_size or self.options.samples_at_a_time

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Resume the next iteration from a state: see `StreamingDataset.load_state_dict`."""
        if is_of_worker(obj):
            if get_worker_info() is None:
                raise StateMismatchError(
                    "the state belongs to one worker process, which reads a part of the samples: "
                    "load the state of the whole loader with StatefulDataLoader.load_state_dict, "
                    "and use the same number of workers"
                )
            self._worker_state = obj
            return
        options = replace(self.options, batch_size=self.settings.batch_size or 1)
        self.epochs.load_state_dict(obj, options)
        self.latest = self.samples = None

    def begin_samples(
        self, worker: Worker | None = None, state: Mapping[str, Any] | None = None
    ) -> SampleIteration:
        """Begin an iteration over samples, in this process alone if `worker` is None."""
        self.latest = self.samples = None
        self.samples = SampleIteration(
            self.options, self.epochs, self.settings.batch_size, worker or Worker(), state
        )
        return self.samples

    def begin_part(self, info: Any) -> SampleIteration:
        """Begin an iteration in a worker process of a plain ``DataLoader``.

        Parameters
        ----------
        info : object
            The result of `torch.utils.data.get_worker_info`.
        """
        end_with_parent()
        parent, world = parent_process(), None  # None: find the world in this process
        if self._sent is not None and parent is not None and parent.pid == self._sent[0]:
            world = self._sent[1]
        group = info.seed - info.id
        worker = Worker(info.id, info.num_workers, group=group, world=world)
        state, self._worker_state = self._worker_state, None
        return self.begin_samples(worker, state)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, which includes the world if a process is being spawned."""
        sent = context.get_spawning_popen() is not None and self.order.follows_world
        place = (os.getpid(), find_world()) if sent else None
        fresh = {"latest": None, "samples": copy(self.samples)}
        return {**self.__dict__, **fresh, "_sent": place}
