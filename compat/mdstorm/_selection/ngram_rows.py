"""Build n-grams from the columns of one shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdstorm._schema.unischema import Unischema
from mdstorm._selection.ngram import NGram


def form(
    ngram: NGram, unischema: Unischema, columns: Mapping[str, Sequence[Any]]
) -> Iterator[dict[int, Any]]:
    """Make the n-grams of the rows of one shard.

    Parameters
    ----------
    ngram : NGram
        The n-grams to make; its regular expressions have been resolved.
    unischema : Unischema
        The schema of the reader.
    columns : mapping of str to sequence
        The values of each wanted field and of the timestamp field, row by row in stored order.

    Yields
    ------
    dict of int to namedtuple
        From offset to the fields requested there.

    Raises
    ------
    UnsortedTimestampsError
        If timestamps do not ascend.
    """
    starts = ngram._starts(columns[ngram._timestamp_name])
    rows = []
    for place, offset in enumerate(ngram._offsets):
        schema = ngram.get_schema_at_timestep(unischema, offset)
        make = schema._get_namedtuple()._make  # type: ignore[attr-defined]
        chosen = [_at(columns[name], starts, place) for name in schema.fields]
        rows.append(map(make, zip(*chosen, strict=True)) if chosen else [make(())] * len(starts))
    for row in zip(*rows, strict=True):
        yield dict(zip(ngram._offsets, row, strict=True))


def _at(values: Sequence[Any], starts: list[int], place: int) -> list[Any]:
    return [values[start + place] for start in starts]
