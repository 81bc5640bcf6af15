"""The order of rows that the arguments ask for."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any

from mdstorm._readers.arguments import ReaderArguments
from mdstorm_backend.base import warn_user
from mdstorm_backend.elastic import ElasticOrder, ElasticShare
from mdstorm_backend.order import DEFAULT_SEED, ExactOrder, World

#: Of each share that was read without a seed, the epoch with which the next loader begins.
_next_epochs: dict[tuple[Any, ...], int] = {}


def sample_order(
    arguments: ReaderArguments, *, is_shared: bool = False
) -> ExactOrder | ElasticShare:
    """Return the order, its seed fixed.

    Parameters
    ----------
    arguments : ReaderArguments
        What the user gave.
    is_shared : bool
        Whether others read in the same order without shard arguments.
    """
    if arguments.shard_seed is not None:
        warn_user("shard_seed was deprecated and will be removed in future versions: use seed")
    seed = _seed(arguments, is_shared or arguments.is_share)
    shuffle_shards, shuffle_rows = bool(arguments.shuffle_row_groups), bool(arguments.shuffle_rows)
    window = max(int(arguments.shuffling_queue_capacity or 0), 0)
    world, follows_world = World(), arguments.is_auto
    if arguments.is_share and not follows_world:
        world = World(int(arguments.cur_shard or 0), int(arguments.shard_count or 1))
    if not arguments.is_elastic:
        return ExactOrder(
            seed,
            shuffle_shards,
            shuffle_rows,
            window,
            world.rank,
            world.size,
            follows_world=follows_world,
        ).resolved()
    order = ElasticOrder(
        batch_size=1,  # that of the loader takes its place
        shuffle=shuffle_shards or shuffle_rows or window > 0,
        shuffle_seed=secrets.randbits(32) | 1 if seed is None else seed,
        shuffle_block_size=window if window > 1 else None,
    )
    return ElasticShare(order, world, states_batch_size=False, follows_world=follows_world)


@dataclass(frozen=True)
class FirstEpoch:
    """The epoch with which a loader begins.

    It is called with the first epoch of each pass, which loaders that are made later do not repeat.

    Attributes
    ----------
    share : tuple
        What is read.
    num_epochs : int
        Epochs of a pass.
    epoch : int
        Its number.
    """

    share: tuple[Any, ...]
    num_epochs: int
    epoch: int

    def __call__(self, epoch: int) -> None:
        _next_epochs[self.share] = max(epoch + self.num_epochs, _next_epochs.get(self.share, 0))


def first_epoch(arguments: ReaderArguments, url: str) -> FirstEpoch | None:
    """Return the epoch with which a loader of `url` begins that is being made; None for the first.

    Shares without a seed have the same one, so that each loader would repeat the one before.
    """
    shuffles = arguments.shuffle_row_groups or arguments.shuffle_rows
    shuffles = shuffles or (arguments.shuffling_queue_capacity or 0) > 0
    if not (shuffles and arguments.is_share) or _seed(arguments, is_shared=False) is not None:
        return None
    share = (url, arguments.cur_shard, arguments.shard_count)
    first = FirstEpoch(share, arguments.num_epochs or 1, _next_epochs.get(share, 0))
    first(first.epoch)
    return first


def draws_seed(arguments: ReaderArguments) -> bool:
    """Whether each process that reads as the arguments say has random permutations of its own."""
    shuffles = arguments.shuffle_row_groups or arguments.shuffle_rows
    return bool(shuffles) and _seed(arguments, arguments.is_share) is None


def _seed(arguments: ReaderArguments, is_shared: bool) -> int | None:
    """Return the seed that is given, or that of all shares; None for neither."""
    given = (arguments.seed, arguments.shard_seed)
    # 0 is no seed in Petastorm, whose order the exact one is.
    seeds = [int(seed) for seed in given if seed or (arguments.is_elastic and seed is not None)]
    if seeds:
        return seeds[0]
    return DEFAULT_SEED if is_shared else None


def with_window(order: ExactOrder | ElasticShare, window: int) -> ExactOrder | ElasticShare:
    """Return the order with a shuffling queue of that capacity; 0 leaves it as it is."""
    if window <= 0:
        return order
    if isinstance(order, ExactOrder):
        return replace(order, window=window)
    block_size = window if window > 1 else None
    shuffled = replace(order.order, shuffle=True, shuffle_block_size=block_size)
    return replace(order, order=shuffled)
