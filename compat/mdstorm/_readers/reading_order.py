"""The order in which a reader reads, the seed, and this process's share of the rows."""

from __future__ import annotations

import logging
from functools import cache

from mdstorm._readers.arguments import ReaderArguments
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import warn_user
from mdstorm_backend.loaders import Epochs
from mdstorm_backend.order import DEFAULT_SEED, Order, World, find_world

_logger = logging.getLogger(__name__)


def sample_order(arguments: ReaderArguments, *, is_shared: bool = False) -> Order:
    """Return the sample order, choosing a seed if the user passed none.

    Parameters
    ----------
    arguments : ReaderArguments
        The user's arguments.
    is_shared : bool
        Whether other processes read in the same order, even without shard arguments.
    """
    if arguments.shard_seed is not None:
        warn_user("shard_seed was deprecated and will be removed in future versions: use seed")
    seed = seed_of(arguments, is_shared or arguments.is_share)
    order = arguments.order(seed)
    if arguments.is_share and not arguments.is_auto:
        share = World(int(arguments.cur_shard or 0), int(arguments.shard_count or 1))
        order = order.share_of(share)
    return order.settled(follows_world=arguments.is_auto)


def draws_seed(arguments: ReaderArguments) -> bool:
    """Whether each process that uses these arguments draws its own random permutations."""
    return arguments.kind_of_order.uses_seed and seed_of(arguments, arguments.is_share) is None


def seed_of(arguments: ReaderArguments, is_shared: bool) -> int | None:
    """Return the user's seed, the default seed if the order is shared, or None."""
    given = (arguments.seed, arguments.shard_seed)
    # In Petastorm, and therefore in the exact order, 0 means no seed.
    zero_counts = arguments.kind_of_order.zero_is_seed
    seeds = [int(seed) for seed in given if seed or (zero_counts and seed is not None)]
    if seeds:
        return seeds[0]
    return DEFAULT_SEED if is_shared else None


def warn_of_whole_passes(_epochs: Epochs) -> None:
    """Log a warning if there are several processes and each reads all rows.

    Invalid launcher variables are also logged rather than raised, because no data depends on them.
    """
    try:
        world = find_world()
    except InvalidArgumentError as error:
        seen = str(error)
    else:
        if world.size == 1:
            return
        seen = f"this is process {world.rank} of {world.size}, according to {world.source}"
    log_whole_passes(seen)


@cache
def log_whole_passes(seen: str) -> None:
    """Log once that every process reads all rows.

    Parameters
    ----------
    seen : str
        Why there are several processes.
    """
    _logger.warning(
        "Every process reads all rows, because cur_shard and shard_count were not passed (%s). "
        'Pass cur_shard="auto" to give each process its share, or cur_shard=0, shard_count=1 if '
        "each should read all rows",
        seen,
    )
