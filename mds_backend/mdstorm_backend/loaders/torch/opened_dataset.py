"""The data behind a `StreamingDataset`, opened on first use."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.datasets.joined_dataset import JoinedDataset
from mdstorm_backend.datasets.stream import Stream, StreamDefaults
from mdstorm_backend.loaders.dataset_info import DatasetInfo
from mdstorm_backend.loaders.elastic_share import ElasticShare
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.reading import Reading
from mdstorm_backend.loaders.runner import reading_of
from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder
from mdstorm_backend.read.source import SampleSource

if TYPE_CHECKING:
    from typing_extensions import Self


class OpenedDataset(DatasetInfo):
    """What a dataset reads, and how: opened on first use.

    Attributes
    ----------
    streams : list of Stream
        The streams.
    order : ExactOrder or ElasticShare
        The order of the samples, and this process's share of them.
    """

    streams: list[Stream]
    order: ExactOrder | ElasticShare
    _defaults: StreamDefaults
    _read_options: dict[str, Any]
    #: Whether the seed of the exact order was not given.
    _is_unseeded: bool

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

    def in_order(self, order: ExactOrder | ElasticShare) -> Self:
        """Return a copy that reads in another order, or another share of it."""
        other = copy(self)
        other.order = order
        other.__dict__.pop("options", None)
        if other.__dict__.pop("reading", None) is not None:
            other.reading.next_epoch = self.reading.next_epoch
        return other

    @property
    def is_told_its_share(self) -> bool:
        """Whether the share is one that was given, whatever the world."""
        return self.order.is_share and not self.order.follows_world

    def shared(self) -> Self:
        """Return a copy of which each rank of the world reads a share; itself if it has shares."""
        if self.order.is_share:
            return self
        order = replace(self.order, follows_world=True)
        if self._is_unseeded and isinstance(order, ExactOrder):
            order = replace(order, seed=DEFAULT_SEED)
        return self.in_order(order)

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
