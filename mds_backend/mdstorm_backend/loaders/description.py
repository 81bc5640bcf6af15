"""Descriptions of what is read in which order, for reprs and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mdstorm_backend.display import Described, Description
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order import Order, find_world


def describe_order(
    description: Description,
    order: Order,
    num_rows: int | None = None,
    further: Iterable[tuple[str, str]] = (),
    is_output: Callable[[str], bool] = lambda name: True,
) -> Description:
    """Return a dataset's description, including the order in which it is read.

    Parameters
    ----------
    description : Description
        Description of the dataset.
    order : Order
        The order, and the share of this rank.
    num_rows : int, optional
        Number of rows in an epoch over all ranks, if known.
    further : iterable of (str, str)
        Further name-value pairs.
    is_output : callable
        Returns whether a column is an output column; other columns are not shown.
    """
    further = list(further)
    sequence, share = order.sequence, _share(order, num_rows)
    line = [*description.line, sequence, *([share] if share else [])]
    facts = [*description.facts, ("order", sequence), ("share", share or "all rows"), *further]
    line += [f"{name}={value}" for name, value in further]
    return replace(
        description, line=line, facts=facts, rows=[r for r in description.rows if is_output(r[0])]
    )


def describe_data(source: object, *, full: bool) -> Description:
    """Return a source's description of its samples, or else its URL or repr."""
    if isinstance(source, Described):
        return source._mdstorm_description(full=full)
    return Description([repr(getattr(source, "url", source))])


def _share(order: Order, num_rows: int | None) -> str:
    """Return this rank's share as a string; empty if it reads all rows."""
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
