"""`DatasetSettings`: the checked arguments of a `StreamingDataset`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from mdstorm_backend.datasets import open_streams
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.datasets.stream_files import INHERITED, StreamDefaults
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.elastic.elastic_settings import SETTINGS
from mdstorm_backend.elastic.sampling import parse_epoch_size
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.order import ExactOrder, Order, Weighting, check_order, given_world
from mdstorm_backend.read import Steps, check_decode
from mdstorm_backend.storage import check_no_secrets

#: Minimum number of samples whose shards are opened ahead of use if no batch size is given.
_LEAST_AHEAD = 64
_BATCHES_AHEAD = 8
#: Arguments that are settings of the elastic order, and their defaults.
_ORDER_SETTINGS = {name: value for name, value in SETTINGS.items() if name != "batch_size"}


class DatasetSettings(SimpleNamespace):
    """The arguments of a `StreamingDataset` as attributes; see that class for descriptions."""

    def checked(self) -> DatasetSettings:
        """Return these settings once arguments that depend on each other have been checked.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If an argument has the wrong type or value, or arguments exclude each other.
        """
        check_decode(self.decode, self.size, self.max_image_bytes)
        _ = self.stream_defaults
        self.new_order()
        return self

    def changed(self, **arguments: Any) -> DatasetSettings:
        """Return these settings with other values of some arguments, which are checked."""
        return DatasetSettings(**{**vars(self), **arguments}).checked()

    def __reduce__(self) -> Any:
        """Return what to pickle; raise an error for credentials, which must not be pickled."""
        check_no_secrets(self.storage_options or {})
        return super().__reduce__()

    def fields_of(self, kind: type) -> dict[str, Any]:
        """Return the arguments that a dataclass also has."""
        given = vars(self)
        return {one.name: given[one.name] for one in fields(kind) if one.name in given}

    @property
    def stream_defaults(self) -> StreamDefaults:
        """The defaults that the streams take from the dataset."""
        return StreamDefaults(**self.fields_of(StreamDefaults))

    def new_order(self) -> Order:
        """Return the reading order, with a fixed seed and the share of the rows to read.

        Unless the order or `world` specifies a share, the share follows the world. Only
        ``ExactOrder(follows_world=False)`` reads all rows.

        Raises
        ------
        InvalidArgumentError
            If both an order and settings or two shares are given, or if the order does not support
            the streams.
        ArgumentTypeError
            If `order` has the wrong type.
        """
        weighting = self.weighting
        if self.order is not None:
            order = self._given_order(self.order)
        else:
            order = self.elastic_order() if weighting is None else self._exact_order()
        order = order if weighting is None else order.weighted(weighting)
        shapes = [each._mdstorm.shape() for each in self.streams]
        order.over(shapes, chosen=self.rows is not None or self.where is not None)
        if self.world is None:
            return order
        if order.world_size > 1:
            raise InvalidArgumentError(
                f"world={self.world!r} and the order's own share, rank {order.world.rank} of "
                f"{order.world_size}, cannot be combined: pass only one"
            )
        return order.share_of(given_world(self.world))

    @property
    def weighting(self) -> Weighting | None:
        """How often each row is drawn; None without `weights` and `balance`."""
        if self.weights is None and self.balance is None:
            return None
        return Weighting.of(self.weights, self.balance, parse_epoch_size(self.epoch_size))

    def elastic_order(self) -> ElasticOrder:
        """Return an elastic order with these settings, whose share follows the world."""
        settings = {name: getattr(self, name) for name in _ORDER_SETTINGS}
        is_stated = self.batch_size is not None
        return ElasticOrder(
            self.batch_size or 1, **settings, states_batch_size=is_stated, follows_world=True
        )

    def _exact_order(self) -> Order:
        """Return an exact order that shuffles as the settings state."""
        self._check_unused(
            "weights=… or balance=…", "shuffle", "shuffle_seed", "shuffle_block_size"
        )
        window = (self.shuffle and self.shuffle_block_size) or 0
        order = ExactOrder(self.shuffle_seed, shuffle_shards=self.shuffle, window=window)
        return order.settled(follows_world=True)

    def _check_unused(self, given: str, *used: str) -> None:
        """Raise InvalidArgumentError if settings of the elastic order are set that are not used."""
        if self.weighting is not None:
            used = (*used, "epoch_size")
        settings = {name: value for name, value in _ORDER_SETTINGS.items() if name not in used}
        if unused := [name for name, value in settings.items() if getattr(self, name) != value]:
            raise InvalidArgumentError(
                f"with {given}, {', '.join(unused)} would have no effect: pass either {given} or "
                "these arguments"
            )

    def _given_order(self, order: object) -> Order:
        self._check_unused("order=…")
        order = check_order(order)
        return order.settled(follows_world=order.world_size == 1)

    @property
    def stored_columns(self) -> list[str] | None:
        """The columns to read, without those that arguments add; None for all."""
        added = {*(self.files or ()), self.row_numbers, *Steps.declared(vars(self)).made}
        return self.columns and [name for name in self.columns if name not in added]

    @property
    def least_ahead(self) -> int:
        """Minimum number of samples whose shards are opened ahead of use."""
        if self.predownload is not None:
            return int(self.predownload)
        return _LEAST_AHEAD if self.batch_size is None else _BATCHES_AHEAD * self.batch_size


def take_streams(arguments: dict[str, Any]) -> list[Stream]:
    """Return the streams that a dataset's arguments specify, and remove these arguments.

    Raises
    ------
    InvalidArgumentError
        If both or neither of ``streams`` and ``remote`` or ``local`` are given, or if ``streams``
        is empty.
    ArgumentTypeError
        If an element is not a `Stream`.
    """
    streams, name = arguments.pop("streams"), arguments.pop("stream_name")
    config = {each: arguments[each] for each in INHERITED}
    config |= {each: arguments.pop(each) for each in ("remote", "local")}
    config |= arguments.pop("stream_config") or {}
    remote, local = config.get("remote"), config.get("local")
    if (streams is None) == (remote is None and local is None):
        raise InvalidArgumentError(
            "You must provide either `streams` or `remote`/`local`, but not both: found "
            f"streams={streams!r}, remote={remote!r} and local={local!r}"
        )
    if streams is None:
        stream = open_streams.streams_registry.get(name)(**config)
        if not isinstance(stream, Stream):
            raise ArgumentTypeError(
                f"streams_registry.get({name!r}) returned {stream!r}, which is not a Stream: "
                "register a subclass of Stream, or a function that returns one"
            )
        return [stream]
    if not isinstance(streams, Sequence) or not all(isinstance(s, Stream) for s in streams):
        raise ArgumentTypeError(
            f"streams must be a list of mdstorm_backend.Stream, found {streams!r}: pass "
            "streams=[Stream(remote=…), …], or a single dataset as remote or local"
        )
    if not streams:
        raise InvalidArgumentError("streams is empty: pass at least one Stream")
    return list(streams)
