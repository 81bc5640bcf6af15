"""`DatasetSettings`: the arguments of a `StreamingDataset`, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.datasets.stream_defaults import StreamDefaults
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.loaders.dataset_arguments import check_read_options, find_order
from mdstorm_backend.loaders.elastic_share import ElasticShare
from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder
from mdstorm_backend.read.batch_reader import check_batch_size, check_num_epochs
from mdstorm_backend.read.block import Transform
from mdstorm_backend.storage import check_no_secrets

#: Samples whose shards are opened ahead, at least, if nobody says how many.
_LEAST_AHEAD = 64
_BATCHES_AHEAD = 8


@dataclass(frozen=True)
class DatasetSettings:
    """What a `StreamingDataset` was told: see there for its arguments, which are the attributes.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If arguments are outside of their domain, or do not go together.
    """

    streams: Sequence[Stream]
    remote: str | None = None
    local: str | None = None
    split: str | None = None
    download_retry: int = 2
    download_timeout: float = 60
    validate_hash: str | None = None
    keep_zip: bool = False
    epoch_size: int | str | None = None
    predownload: int | None = None
    cache_limit: int | str | None = None
    sampling_method: str = "balanced"
    sampling_granularity: int = 1
    partition_algo: str = "relaxed"
    num_canonical_nodes: int | None = None
    batch_size: int | None = None
    shuffle: bool = False
    shuffle_algo: str = "py1e"
    shuffle_seed: int = DEFAULT_SEED
    shuffle_block_size: int | None = None
    batching_method: str = "random"
    allow_unsafe_types: bool = False
    replication: int | None = None
    stream_name: str = "stream"
    stream_config: dict[str, Any] | None = None
    order: ExactOrder | ElasticOrder | ElasticShare | None = None
    columns: Sequence[str] | None = None
    num_epochs: int | None = 1
    transform: Transform | None = None
    fill_nulls: Mapping[str, Any] | None = None
    null_masks: Sequence[str] = ()
    workers: int = 2
    prefetch: int = 4
    storage_options: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_batch_size(self.batch_size)
        check_num_epochs(self.num_epochs)
        check_read_options(
            columns=self.columns,
            null_masks=self.null_masks,
            transform=self.transform,
            workers=self.workers,
            prefetch=self.prefetch,
            predownload=self.predownload,
        )
        _ = self.stream_defaults, self.new_order()

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to send credentials to other processes."""
        check_no_secrets(self.storage_options or {})
        return self.__dict__

    def new_order(self) -> ExactOrder | ElasticShare:
        """Return the order to read in, and the share of it; a seed that was not given is drawn."""
        names = (field.name for field in fields(ElasticOrder) if field.name != "batch_size")
        settings = {name: getattr(self, name) for name in names}
        return find_order(self.order, self.batch_size, settings, self.streams)

    @property
    def is_unseeded(self) -> bool:
        """Whether the seed of the exact order was not given."""
        return isinstance(self.order, ExactOrder) and not self.order.seed

    @property
    def stream_defaults(self) -> StreamDefaults:
        """What streams take from their dataset."""
        return StreamDefaults(
            split=self.split,
            download_retry=self.download_retry,
            download_timeout=self.download_timeout,
            validate_hash=self.validate_hash,
            keep_zip=self.keep_zip,
            cache_limit=self.cache_limit,
            allow_unsafe_types=self.allow_unsafe_types,
            storage_options=self.storage_options,
        )

    @property
    def read_options(self) -> dict[str, Any]:
        """What `ReaderOptions` takes of it."""
        return {
            "columns": None if self.columns is None else tuple(self.columns),
            "num_epochs": None if self.num_epochs is None else int(self.num_epochs),
            "transform": self.transform,
            "fill_nulls": self.fill_nulls,
            "null_masks": tuple(self.null_masks),
            "workers": self.workers,
            "prefetch": self.prefetch,
            "predownload": self.predownload,
        }

    @property
    def least_ahead(self) -> int:
        """Samples whose shards are opened ahead, at least."""
        if self.predownload is not None:
            return self.predownload
        return _LEAST_AHEAD if self.batch_size is None else _BATCHES_AHEAD * self.batch_size
