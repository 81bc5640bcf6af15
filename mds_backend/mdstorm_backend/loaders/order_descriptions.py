"""What loaders, readers and their datasets tell of the order, and of this rank's share of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mdstorm_backend.display import Described, Description
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder
from mdstorm_backend.order.world import World, find_world


def in_order(
    found: Description,
    order: ExactOrder | ElasticShare,
    num_rows: int | None = None,
    further: Iterable[tuple[str, str]] = (),
    delivers: Callable[[str], bool] = lambda name: True,
) -> Description:
    """Return a description of data with the order in which they are read.

    Parameters
    ----------
    found : Description
        What is read.
    order : ExactOrder or ElasticShare
        The order, and the share of this rank.
    num_rows : int, optional
        Rows of an epoch over all ranks, if they are known.
    further : iterable of (str, str)
        Further facts: names and values.
    delivers : callable
        Whether a column is delivered: the others are not shown.
    """
    further = list(further)
    sequence, share = _sequence(order), _share(order, num_rows)
    line = [*found.line, sequence, *([share] if share else [])]
    facts = [*found.facts, ("order", sequence), ("share", share or "all rows"), *further]
    line += [f"{name}={value}" for name, value in further]
    return replace(found, line=line, facts=facts, rows=[r for r in found.rows if delivers(r[0])])


def describe_data(source: object, *, full: bool) -> Description:
    """Describe what is read, whatever it is."""
    if isinstance(source, Described):
        return source._mdstorm_description(full=full)
    return Description([repr(getattr(source, "url", source))])


def _sequence(order: ExactOrder | ElasticShare) -> str:
    if isinstance(order, ElasticShare):
        elastic = order.order
        if not elastic.shuffle:
            return "elastic order, sequential"
        return f"elastic order, shuffled by {elastic.shuffle_algo}, seed {elastic.shuffle_seed}"
    shuffled = [
        what
        for what, is_shuffled in (("shards", order.shuffle_shards), ("rows", order.shuffles))
        if is_shuffled
    ]
    if not shuffled:
        return "exact order, sequential"
    seed = order.seed or (DEFAULT_SEED if order.is_share else "drawn at random")
    return f"exact order, {' and '.join(shuffled)} shuffled, seed {seed}"


def _share(order: ExactOrder | ElasticShare, num_rows: int | None) -> str:
    """Return the share of this rank; empty if it has everything."""
    if order.follows_world:
        try:
            world = find_world()
        except InvalidArgumentError:
            return "a share of a world that is not known"
        order = order.share_of(world)
    elif isinstance(order, ElasticShare):
        world = order.world
    else:
        world = World(order.rank, order.world_size)
    if world.size == 1:
        return ""
    rank = f"rank {world.rank} of {world.size}"
    if num_rows is None or isinstance(order, ElasticShare) or num_rows < world.size:
        return rank
    return f"{rank}: {order.rows_in(num_rows, 0):,} rows"
