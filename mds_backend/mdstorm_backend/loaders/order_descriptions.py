"""What loaders, readers and their datasets tell of the order, and of this rank's share of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mdstorm_backend.display import Described, Description
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.world import find_world


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
    sequence, share = order.sequence, _share(order, num_rows)
    line = [*found.line, sequence, *([share] if share else [])]
    facts = [*found.facts, ("order", sequence), ("share", share or "all rows"), *further]
    line += [f"{name}={value}" for name, value in further]
    return replace(found, line=line, facts=facts, rows=[r for r in found.rows if delivers(r[0])])


def describe_data(source: object, *, full: bool) -> Description:
    """Describe what is read, whatever it is."""
    if isinstance(source, Described):
        return source._mdstorm_description(full=full)
    return Description([repr(getattr(source, "url", source))])


def _share(order: ExactOrder | ElasticShare, num_rows: int | None) -> str:
    """Return the share of this rank; empty if it has everything."""
    if order.follows_world:
        try:
            order = order.share_of(find_world())
        except InvalidArgumentError:
            return "a share of a world that is not known"
    if order.world_size == 1:
        return ""
    rank = f"rank {order.world.rank} of {order.world_size}"
    rows = None if num_rows is None else order.rows_of_rank(num_rows)
    return rank if rows is None else f"{rank}: {rows:,} rows"
