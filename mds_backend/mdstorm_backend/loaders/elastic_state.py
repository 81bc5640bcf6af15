"""Track the epochs of the elastic order, and their state.

The state has the keys and the meaning of MosaicML Streaming's. The count of epochs is shared with
worker processes, each of which reads its part of one epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.loaders.shared_record import SharedRecord
from mdstorm_backend.loaders.state_values import check_epoch, damaged, number, state_mapping
from mdstorm_backend.loaders.work_ahead import WorkAhead
from mdstorm_backend.order.world import World

_MOST_NODES = 1_000_000


@dataclass(frozen=True)
class EpochStart:
    """Where an epoch is begun, or gone on with.

    Attributes
    ----------
    epoch : int
        Number of the epoch, from 0.
    sample_in_epoch : int
        Samples that the whole world has seen of it before.
    first_epoch : int or None
        Epoch with which the pass began that this one belongs to; None if it is to begin one.
    num_canonical_nodes, shuffle_seed, initial_physical_nodes
        What a loaded state says of the order, before the arguments; None where none was loaded.
    end : int or None
        What `sample_in_epoch` is at the end of the epoch, padding of the world's last batch
        included; None if unknown.
    """

    epoch: int
    sample_in_epoch: int = 0
    first_epoch: int | None = None
    num_canonical_nodes: int | None = None
    shuffle_seed: int | None = None
    initial_physical_nodes: int | None = None
    end: int | None = None

    def following(self) -> EpochStart:
        """Return the beginning of the next epoch."""
        return replace(self, epoch=self.epoch + 1, sample_in_epoch=0, end=None)

    def order(self, order: ElasticOrder) -> ElasticOrder:
        """Return `order` as the state wants it."""
        return replace(
            order,
            num_canonical_nodes=self.num_canonical_nodes or order.num_canonical_nodes,
            shuffle_seed=order.shuffle_seed if self.shuffle_seed is None else self.shuffle_seed,
        )


@dataclass(frozen=True)
class Joining:
    """A worker process that reads its part of an epoch.

    Attributes
    ----------
    worker : int
        Its number.
    group : int
        The same for all workers that belong together, and for no others.
    """

    worker: int
    group: int


class ElasticEpochs:
    """The epochs of one dataset object, in its process and in workers that have copies of it.

    Parameters
    ----------
    first_epoch : int
        The one that is begun first.
    """

    def __init__(self, first_epoch: int = 0) -> None:
        #: ``start`` is the epoch that was begun or loaded last, ``next`` the one to begin.
        following = asdict(EpochStart(first_epoch))
        self._record = SharedRecord({"start": None, "next": following, "joined": []})
        self.ahead = WorkAhead()
        self._begun = 0

    @property
    def _own_record(self) -> SharedRecord:
        """The record of this process and its workers: ranks count by themselves."""
        self._record.part()
        return self._record

    @property
    def next_epoch(self) -> int:
        """Number of the epoch that is begun next."""
        return int(self._own_record.read()["next"]["epoch"])

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        check_epoch(epoch)
        with self._own_record.changing() as record:
            following = record["next"]
            if following["epoch"] != int(epoch):  # or a loop names the one that it goes on with
                record["next"] = {**following, **_beginning_of(int(epoch))}

    @property
    def is_joined(self) -> bool:
        """Whether worker processes read the epoch that was begun last."""
        return bool(self._own_record.read()["joined"])

    @property
    def begun(self) -> EpochStart | None:
        """The epoch that was begun last, or is to go on; None before the first one."""
        start = self._own_record.read()["start"]
        return None if start is None else EpochStart(**start)

    def begin(self, joining: Joining | None = None, first_epoch: int | None = None) -> EpochStart:
        """Begin the next epoch; with other workers of one group, the one that they begin.

        It belongs to the pass that has begun with `first_epoch`, and otherwise begins one, unless
        a state says something else.
        """
        self._begun += 1
        with (self._record if joining else self._own_record).changing() as record:
            group, workers = record["joined"] or (None, [])
            # A worker takes part in an epoch once. Persistent ones begin several in turn.
            mine = None if joining is None else [joining.group, self._begun]
            if joining is None or group != mine or joining.worker in workers:
                following = record["next"]
                epoch, of_state = following["epoch"], following["first_epoch"]
                first = epoch if first_epoch is None else first_epoch
                first = first if of_state is None else of_state
                record["start"] = {**following, "first_epoch": first}
                record["next"] = {**following, **_beginning_of(epoch + 1)}
                workers = []
            record["joined"] = [] if joining is None else [mine, [*workers, joining.worker]]
            return EpochStart(**record["start"])

    def note_end(self, start: EpochStart, end: int) -> None:
        """Note where the epoch ends that was begun at `start`, unless another one was since."""
        with self._own_record.changing() as record:
            if record["start"] == asdict(start):
                record["start"]["end"] = end

    def state_dict(
        self,
        order: ElasticOrder,
        world: World,
        num_samples: int,
        *,
        from_beginning: bool,
        start: EpochStart | None,
    ) -> dict[str, Any]:
        """Return the five keys of a state.

        Parameters
        ----------
        order, world : ElasticOrder, World
            The order as its arguments say it, and the world.
        num_samples : int
            Samples that the whole world has seen of the epoch.
        from_beginning : bool
            Whether that counts from the beginning of the epoch, or from where it was gone on with.
        start : EpochStart or None
            The epoch meant; None where none was begun.
        """
        if start is None:
            # Nothing was begun: before the first epoch MosaicML Streaming says -1.
            start = EpochStart(**self._own_record.read()["next"])
            start = replace(start, epoch=start.epoch or -1)
        nodes = world.replicated(order.replication).num_nodes
        resolved = start.order(order).resolved(nodes)
        return {
            "epoch": start.epoch,
            "sample_in_epoch": num_samples + (0 if from_beginning else start.sample_in_epoch),
            "num_canonical_nodes": resolved.num_canonical_nodes,
            "shuffle_seed": resolved.shuffle_seed,
            "initial_physical_nodes": start.initial_physical_nodes or nodes,
        }

    def forget_order(self) -> None:
        """Let the arguments decide again, and not a state, unless that is still to go on."""
        with self._own_record.changing() as record:
            if record["next"] != record["start"]:
                keys = ("num_canonical_nodes", "shuffle_seed")
                record["next"] = {**record["next"], **dict.fromkeys(keys)}

    def go_on(self, start: EpochStart) -> None:
        """Let the next epoch be `start`."""
        with self._own_record.changing() as record:
            record["start"], record["next"], record["joined"] = asdict(start), asdict(start), []

    def go_on_as_worker(self, start: EpochStart, next_epoch: int, worker: int) -> None:
        """Note that a worker process goes on with `start` by itself, as others do with theirs."""
        with self._record.changing() as record:
            record["start"] = asdict(start)
            record["next"] = {**asdict(start), **_beginning_of(next_epoch)}
            record["joined"] = [[None, 0], [worker]]

    def load_state_dict(self, state: object, first_epoch: int | None = None) -> EpochStart:
        """Let the next epoch be the one in which a state was taken, from there on.

        Raises
        ------
        StateMismatchError
            If it is not a state.
        """
        start = parse_state(state, first_epoch)
        begun = asdict(start) if start.epoch == state["epoch"] else None  # type: ignore[index]
        with self._own_record.changing() as record:
            record["start"], record["next"], record["joined"] = begun, asdict(start), []
        return start


def parse_state(state: object, first_epoch: int | None = None) -> EpochStart:
    """Read the five keys of a state, and where its epoch ends if it says so.

    Raises
    ------
    StateMismatchError
        If it is none.
    """
    state = state_mapping(state)
    epoch, samples = number(state, "epoch", -1), number(state, "sample_in_epoch", 0)
    if epoch < 0:
        # Taken before the first epoch: that is to be begun, as the arguments and this world say.
        return EpochStart(0)
    ours = state.get("mdstorm") or {}
    end = None if ours.get("epoch_end") is None else number(ours, "epoch_end")
    if end is not None and samples > end:
        raise damaged(f"it stands after {samples} samples of an epoch that ends after {end}")
    return EpochStart(
        epoch,
        samples,
        first_epoch,
        _optional_nodes(state, "num_canonical_nodes"),
        None if state.get("shuffle_seed") is None else number(state, "shuffle_seed"),
        # States of old versions of MosaicML Streaming have no such key.
        _optional_nodes(state, "initial_physical_nodes"),
        end,
    )


def _beginning_of(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "sample_in_epoch": 0, "first_epoch": None, "end": None}


def _optional_nodes(state: Mapping[str, Any], key: str) -> int | None:
    if state.get(key) is None:
        return None
    nodes = number(state, key, 1)
    if nodes > _MOST_NODES:  # each gets a sample, however few there are
        raise damaged(f"{key!r} is {nodes}, and nobody has more than {_MOST_NODES} nodes")
    return nodes
