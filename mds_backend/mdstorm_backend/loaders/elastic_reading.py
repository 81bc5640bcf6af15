"""Read a dataset in the elastic order: see `mdstorm_backend.elastic`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.elastic_pass import ElasticPass, ElasticSchedule
from mdstorm_backend.loaders.elastic_state import EpochStart, Joining, parse_state
from mdstorm_backend.loaders.legs import Batching, ElasticLeg, Leg
from mdstorm_backend.loaders.reading import Worker
from mdstorm_backend.loaders.state_values import (
    check_equal,
    check_version,
    damaged,
    number,
    other_seed,
    state_mapping,
)
from mdstorm_backend.order.world import World


class ElasticReading(ElasticSchedule):
    """How a dataset is read in the elastic order: see `ElasticSchedule` for its parameters."""

    @property
    def next_epoch(self) -> int:
        """Number of the epoch that is begun next."""
        return self.epochs.next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self.epochs.next_epoch = epoch

    def first_pass(self, batching: Batching) -> ElasticPass:
        """Return the pass of a loader that has not begun any."""
        return ElasticPass(self, batching)

    def resumed(self, state: object, batching: Batching) -> tuple[ElasticReading, ElasticPass]:
        """Return how to read, and the pass to go on with, from where a state was taken."""
        self.load_state_dict(state)
        return self, ElasticPass(self, batching)

    def leg(self, token: tuple[EpochStart, World], batching: Batching) -> ElasticLeg:
        """Return the stretch of a pass with that token."""
        start, world = token
        here = self.in_world(world)
        return ElasticLeg(here.options, batching, start, here.work(start, batching))

    def own_legs(self, batch_size: int | None, worker: Worker) -> Iterator[Leg]:
        """Begin an iteration over samples, or join in with other workers."""
        share = self.options.elastic_share
        depends = worker.count > 1 or share.order.batching_method != "random"
        if depends and batch_size is None and not share.states_batch_size:
            raise InvalidArgumentError(
                "the order of samples depends on the batches: please pass `batch_size` to the "
                "StreamingDataset, the same as to the loader"
            )
        joining = None if worker.group is None else Joining(worker.number, worker.group)
        batching = _own_batching(batch_size, worker)
        here, self.last = self.in_world(worker.world), None
        for start, work in here.epochs_of_pass(batching, joining):
            yield ElasticLeg(here.options, batching, start, work)

    def state_of_leg(self, leg: ElasticLeg) -> dict[str, Any]:
        """Return the state of a process that reads a part of `leg` from its beginning."""
        here = ElasticSchedule(leg.options, self.epochs)
        state = here.state_dict(0, False, leg.start)
        return {**state, "mdstorm": {**state["mdstorm"], "skipped": leg.skipped}}

    def legs_of_state(
        self, state: Mapping[str, Any], batch_size: int | None, worker: Worker
    ) -> Iterator[ElasticLeg]:
        """Go on where `state_of_leg` was called."""
        # Even at the beginning of an epoch the order must be that of the other workers' states.
        first = self._check_ours(state["mdstorm"], {**state, "sample_in_epoch": 1})
        start, skipped = parse_state(state, first), number(state["mdstorm"], "skipped", 0)
        first = start.epoch if first is None else first
        start = replace(start, first_epoch=first)
        num_epochs = self.options.num_epochs
        end = None if num_epochs is None else first + num_epochs
        self.epochs.go_on_as_worker(start, start.epoch + 1 if end is None else end, worker.number)
        here, batching = self.in_world(worker.world), _own_batching(batch_size, worker)
        here.options.note_pass(first)
        while end is None or start.epoch < end:
            yield ElasticLeg(here.options, batching, start, here.work(start, batching), skipped)
            start, skipped = start.following(), 0

    def skip_pass(self) -> None:
        """Do nothing: the workers have counted the pass."""

    def state_of_samples(self, num_samples: int) -> dict[str, Any]:
        """Return the state of the iteration begun last; over samples, after so many of this rank.

        Raises
        ------
        StateMismatchError
            If worker processes read them.
        """
        if self.epochs.is_joined:
            raise StateMismatchError(
                "the samples are read in worker processes, and this one does not know how many "
                "they have delivered: use a StreamingDataLoader and its state_dict(), or "
                "num_workers=0"
            )
        if self.last is not None:
            return self.last.state_dict()
        return self.state_dict(num_samples * self.ranks, False)

    def load_state_dict(self, state: object) -> None:
        """Let the next epoch be the one in which a state was taken, from there on.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset, order or world, or is not a state.
        """
        state = state_mapping(state)
        ours = state.get("mdstorm")
        first_epoch = None if ours is None else self._check_ours(ours, state)
        start = self.epochs.load_state_dict(state, first_epoch)
        if start.sample_in_epoch:
            self.options.note_pass(start.epoch if first_epoch is None else first_epoch)
        self.last = None

    def _check_ours(self, ours: object, state: Mapping[str, Any]) -> int | None:
        if not isinstance(ours, Mapping) or ours.get("order") != "elastic":
            raise StateMismatchError(
                "the state was not taken in the order 'elastic', so it does not say which "
                "samples to skip. Load it where that order is used"
            )
        check_version(ours)
        here: dict[str, Any] = {"dataset": self.options.dataset.fingerprint}
        there = {"dataset": ours.get("dataset")}
        if state.get("sample_in_epoch"):  # between epochs settings may change
            here |= self._settings()
            there |= _mapping(ours, "settings")
            order, rank = self.share.order, self.in_world().share.world.rank
            wrong = other_seed(ours, state.get("shuffle_seed"), order.shuffle_seed, rank)
            if order.shuffle and wrong:
                warn_user(wrong)
        check_equal(there, here, self.options.dataset.url)
        if ours.get("first_epoch") is None:
            return None
        first_epoch, epoch = number(ours, "first_epoch", -1), number(state, "epoch", -1)
        if first_epoch > epoch:
            raise damaged(f"its pass began with epoch {first_epoch}, and it stands in {epoch}")
        # Before the first epoch it is -1, and no pass has begun.
        return first_epoch if first_epoch >= 0 else None


def _mapping(ours: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = ours.get(key) or {}
    if not isinstance(found, Mapping):
        raise damaged(f"{key!r} has to be a mapping, found {found!r}")
    return dict(found)


def _own_batching(batch_size: int | None, worker: Worker) -> Batching:
    return Batching(batch_size or 1, num_workers=worker.count)
