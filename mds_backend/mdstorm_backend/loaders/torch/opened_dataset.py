"""The data behind a `StreamingDataset`, opened on first use."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.datasets.dataset import Dataset, describe_place
from mdstorm_backend.datasets.open_streams import (
    JoinedDataset,
    check_columns,
    open_stream,
    refuse_unsafe_types,
)
from mdstorm_backend.display import Description
from mdstorm_backend.elastic import ElasticOrder, ElasticShare
from mdstorm_backend.loaders.dataset_settings import DatasetSettings
from mdstorm_backend.loaders.epochs import Epochs
from mdstorm_backend.loaders.passes import Schedule
from mdstorm_backend.loaders.reader_options import ReaderOptions, describe_data, in_order
from mdstorm_backend.loaders.sample_maker import SampleMaker
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.world import find_world
from mdstorm_backend.read.decoded_images import ImageDecoder
from mdstorm_backend.read.shard import SampleSource

if TYPE_CHECKING:
    from typing_extensions import Self

#: Settings with which the data are opened.
_OPENED_WITH = ("streams", "cache_limit", "allow_unsafe_types")
#: Settings that the first epoch settles, if they were not given, or that a state may bring along.
_SETTLED = ("num_canonical_nodes", "shuffle_block_size", "shuffle_seed")


class OpenedDataset:
    """What a dataset reads, and how: opened on first use.

    Parameters
    ----------
    settings : DatasetSettings
        What it was told.

    Attributes
    ----------
    settings : DatasetSettings
        What it was told, at first or later.
    order : ExactOrder or ElasticShare
        The order of the samples, and this process's share of them.
    """

    def __init__(self, settings: DatasetSettings) -> None:
        self.settings = settings
        self.order = settings.new_order()
        #: There before anything is opened, which may be in a worker process alone.
        self._epochs = Epochs()

    def description(self, *, full: bool) -> Description:
        """Return what the dataset tells of itself; nothing is opened for it but a local index."""
        opened, order = self.__dict__.get("dataset"), self.order
        if opened is not None:
            found, size = describe_data(opened, full=full), len(opened)
            options = self.__dict__.get("options")
            shown = options.shown if options else ()
            return in_order(found, order, size, shown, delivers=self.delivers)
        return in_order(self._unopened(full=full), order, delivers=self.delivers)

    def delivers(self, name: str) -> bool:
        """Whether a stored column is delivered, as far as that is known."""
        options, chosen = self.__dict__.get("options"), self.settings.columns
        return name in options.delivered if options else chosen is None or name in chosen

    def _unopened(self, *, full: bool) -> Description:
        """Describe what nobody has opened yet."""
        places = [f"{s.remote or s._mdstorm.own('local')}" for s in self.settings.streams]
        is_one = len(places) == 1
        return describe_place(
            ", ".join(places), self.settings.storage_options, full=full and is_one
        )

    @cached_property
    def parts(self) -> list[Dataset]:
        """The dataset of each stream, opened on first use."""
        settings = self.settings
        parts = [open_stream(stream, settings) for stream in settings.streams]
        check_columns(parts, settings.columns)
        if not settings.allow_unsafe_types:
            for part in parts:
                refuse_unsafe_types(part, settings.columns)
        return parts

    @cached_property
    def dataset(self) -> SampleSource:
        """The data, opened on first use."""
        return self.parts[0] if len(self.parts) == 1 else JoinedDataset(self.parts)

    @cached_property
    def options(self) -> ReaderOptions:
        """How it is read."""
        if isinstance(self.order, ElasticShare) and not self.order.streams:
            self.order = self._weighed(self.order)
        settings = self.settings
        options = ReaderOptions(self.dataset, self.order, **settings.read_options)
        if not settings.decode:
            return options
        images = ImageDecoder.of(
            *(options.schema, settings.decode, settings.size, settings.null_masks),
            settings.max_image_bytes,
        )
        transform = options.transform and images.before(options.transform)
        return replace(options, images=images, transform=transform)

    def _weighed(self, share: ElasticShare) -> ElasticShare:
        """Work out what each stream has of an epoch."""
        streams = self.settings.streams
        pairs = zip(streams, self.parts, strict=True)
        shapes = tuple(stream._mdstorm.shape(*part.shard_sizes) for stream, part in pairs)
        weights = share.order.weights(shapes)
        for stream, weight in zip(streams, weights, strict=True):
            stream._mdstorm.derive(weight)
        return replace(share, streams=shapes)

    @cached_property
    def schedule(self) -> Schedule:
        """How its order is read."""
        return Schedule(self.options, self._epochs)

    @cached_property
    def sample_maker(self) -> SampleMaker:
        """Makes single samples."""
        return SampleMaker(self.options)

    def in_order(self, order: ExactOrder | ElasticShare) -> Self:
        """Return a copy that reads in another order, or another share of it."""
        other = copy(self)
        other.order = order
        other._epochs = Epochs()
        other.__dict__.pop("options", None)
        if other.__dict__.pop("schedule", None) is not None:
            other.schedule.next_epoch = self.schedule.next_epoch
        return other

    def twin(self) -> Self:
        """Return a copy that can be told other settings; in the elastic order both count epochs."""
        other = copy(self)
        if "schedule" in other.__dict__:
            other.schedule = copy(self.schedule)
        return other

    def shown(self, name: str) -> Any:
        """Return a setting as the attribute of that name has it."""
        if name == "epoch_size":
            return self.schedule.sampler().num_samples
        if name == "predownload":
            return self.settings.least_ahead
        if name == "streams":
            return list(self.settings.streams)
        if name == "order":
            return self.order
        if name in _SETTLED and isinstance(self.order, ElasticShare) and self._is_begun:
            return getattr(self._settled(self.order), name)
        return getattr(self.settings, name)

    def change(self, name: str, value: Any) -> None:
        """Change a setting for the iterations that begin from now on.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If the constructor would refuse it.
        """
        settings = replace(self.settings, **{name: value})
        if isinstance(self.order, ElasticShare) and settings.order is None:
            self.order = self._changed_order(self.order, settings, name)
        self.settings = settings
        if name in _OPENED_WITH:
            for opened in ("parts", "dataset"):
                self.__dict__.pop(opened, None)
        for derived in ("options", "sample_maker"):
            self.__dict__.pop(derived, None)
        if "schedule" in self.__dict__:
            self.schedule.options = self.options  # a pass that is under way keeps its own

    def _changed_order(
        self, share: ElasticShare, settings: DatasetSettings, name: str
    ) -> ElasticShare:
        asked = settings.new_order()
        assert isinstance(asked, ElasticShare)
        order = asked.order
        if self._is_begun:
            settled = self._settled(share)
            kept = {key: getattr(settled, key) for key in _SETTLED if key != name}
            order = replace(order, **kept)
            self.schedule.epochs.forget_order()
        states = asked.states_batch_size
        return replace(share, order=order, states_batch_size=states, streams=())

    @property
    def _is_begun(self) -> bool:
        """Whether an epoch was begun."""
        schedule = self.__dict__.get("schedule")
        return schedule is not None and schedule.epochs.begun is not None

    def _settled(self, share: ElasticShare) -> ElasticOrder:
        """The order as the epoch that was begun last has it."""
        begun = self.schedule.epochs.begun
        assert begun is not None
        here = share.share_of(find_world()) if share.follows_world else share
        return here.resumed(begun)

    @property
    def initial_physical_nodes(self) -> int | None:
        """Nodes with which the epoch began that a loaded state goes on with; None without one."""
        begun = self.schedule.epochs.begun
        return None if begun is None else begun.initial_physical_nodes

    @property
    def is_told_its_share(self) -> bool:
        """Whether the share is one that was given, whatever the world."""
        return not self.order.follows_world

    def shared(self) -> Self:
        """Return a copy of which each rank of the world reads a share; itself if it has shares."""
        return self

    def count_ranks(self) -> int:
        """Return among how many ranks the samples are shared out."""
        return find_world().size if self.order.follows_world else self.order.world_size

    def count_shares(self) -> int:
        """Return how many ranks read different samples."""
        return self.schedule.sampler().num_ranks
