"""The items of a reader: rows, batches, or n-grams of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from mdstorm._readers.item_cursor import ItemCursor
from mdstorm._rows import batch_array, cells, rows_of
from mdstorm.ngram import NGram
from mdstorm.unischema import Unischema
from mdstorm_backend import loaders
from mdstorm_backend.format import Batch, Column
from mdstorm_backend.read import Block

ColumnOf: TypeAlias = Callable[[str], Column | None]
#: Returns the item of a batch, or an iterator of its items.
MakeItems: TypeAlias = Callable[[Batch], Any]


def cursor_of(options: loaders.ReaderOptions, make_items: MakeItems, batched: bool) -> ItemCursor:
    """Return a cursor over a reader's items, reading one shard per batch."""
    convert = each_batch(make_items)
    here = options.in_world()
    _ = here.first_plan.rows_per_epoch  # raises an error if there are more ranks than rows
    rows = max([*options.dataset.shard_sizes, 1])
    largest = None if options.reading.files is None else options.samples_at_a_time
    options = replace(options, batch_size=rows, by_shard=True, largest=largest)
    loader = loaders.Loader(options, splits=not batched)
    return ItemCursor(loader, lambda segment: loaders.converted(segment.blocks(), convert))


def items_of(
    schema: Unischema, column_of: ColumnOf, batched: bool, ngram: NGram | None
) -> MakeItems:
    """Return the function that turns a batch into a reader's items.

    If the reader is `batched`, the function returns a namedtuple of arrays. Otherwise, it returns
    an iterator over rows, which are namedtuples of values, or over n-grams of rows. `column_of`
    returns the stored column behind an output column, or None if a transform created it.
    """
    row_type: Any = schema._get_namedtuple()

    def batch_item(batch: Batch) -> Any:
        arrays = (batch_array(name, batch[name], column_of(name)) for name in row_type._fields)
        return row_type(*arrays)

    def ngrams(batch: Batch) -> Iterator[Any]:
        assert ngram is not None
        columns = {name: cells(batch[name], column_of(name)) for name in schema.fields}
        return ngram._mdstorm_of_columns(schema, columns)

    def rows(batch: Batch) -> Iterator[Any]:
        return rows_of(batch, row_type, column_of)

    return batch_item if batched else rows if ngram is None else ngrams


def each_batch(make: Callable[[Batch], Any]) -> loaders.Convert:
    """Return a block converter that yields the result of `make` for each non-empty batch."""

    def convert(blocks: Iterator[Block]) -> loaders.NumberedBatches:
        for block in blocks:
            for batch, offset, size in zip(
                block.batches(), block.offsets, block.sizes, strict=True
            ):
                # Create each item before its batch counts as read, because an error would
                # otherwise skip the batch.
                yield make(batch) if size else loaders.NOTHING, offset, size

    return convert
