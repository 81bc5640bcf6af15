"""Turn a shard's share of rows into batches, rows or n-grams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from mdstorm._rows import batch_array, cells, rows_of
from mdstorm.ngram import NGram
from mdstorm.unischema import Unischema
from mdstorm_backend.format import Batch, Column
from mdstorm_backend.loaders import NOTHING, Convert, Delivered
from mdstorm_backend.read import Block

ColumnOf: TypeAlias = Callable[[str], Column | None]
#: Makes the items of a batch.
MakeItems: TypeAlias = Callable[[Batch], Iterator[Any]]


def items_of(
    schema: Unischema, column_of: ColumnOf, *, batched: bool, ngram: NGram | None
) -> MakeItems:
    """Return the function from a batch to the items that a reader delivers.

    Parameters
    ----------
    schema : Unischema
        The fields of what is delivered.
    column_of : callable
        Says which stored column stands behind a name; None for one that a transform has made.
    batched : bool
        Whether the batch is one item, a namedtuple of arrays.
    ngram : NGram or None
        What rows are put together by; otherwise each row is an item, a namedtuple of values.
    """
    row_type: Any = schema._get_namedtuple()

    def batch_item(batch: Batch) -> Iterator[Any]:
        arrays = (batch_array(name, batch[name], column_of(name)) for name in row_type._fields)
        yield row_type(*arrays)

    def ngrams(batch: Batch) -> Iterator[Any]:
        assert ngram is not None
        columns = {name: cells(batch[name], column_of(name)) for name in schema.fields}
        return ngrams_of(ngram, schema, columns)

    def rows(batch: Batch) -> Iterator[Any]:
        return rows_of(batch, row_type, column_of)

    return batch_item if batched else rows if ngram is None else ngrams


def deliver_items(make_items: MakeItems, *, batched: bool) -> Convert:
    """Return what makes items of the blocks of a reader: for each batch one, or an iterator.

    Batches without rows have none.
    """

    def convert(blocks: Iterator[Block]) -> Delivered:
        for block in blocks:
            for batch, mark, size in zip(block.batches(), block.marks, block.sizes, strict=True):
                items = make_items(batch) if size else iter(())
                # Made before it counts as delivered, or one that cannot be made would be skipped.
                yield next(items, NOTHING) if batched else items, mark, size

    return convert


def ngrams_of(
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
    starts = ngram._mdstorm_starts(columns[ngram._mdstorm_timestamp_name])
    rows = []
    for place, offset in enumerate(ngram._mdstorm_offsets):
        schema = ngram.get_schema_at_timestep(unischema, offset)
        make = schema._get_namedtuple()._make  # type: ignore[attr-defined]
        chosen = [[columns[name][start + place] for start in starts] for name in schema.fields]
        rows.append(map(make, zip(*chosen, strict=True)) if chosen else [make(())] * len(starts))
    for row in zip(*rows, strict=True):
        yield dict(zip(ngram._mdstorm_offsets, row, strict=True))
