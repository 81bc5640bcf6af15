"""Apply a predicate as a transform of the reading core."""

from __future__ import annotations

import numpy as np

from mdstorm._selection.predicate_masks import FieldRows, Mask, predicate_mask
from mdstorm.errors import InvalidArgumentError
from mdstorm.predicates import PredicateBase
from mdstorm_backend.format import Batch, Schema, take_values


class PredicateFilter:
    """A `Transform` that keeps only the rows that a predicate includes.

    Columns keep their types, and rows their order. Pickles if the predicate does.

    Parameters
    ----------
    predicate : PredicateBase
        What the user gave.
    schema : Schema
        The columns that are read, before any other transform.
    batched : bool
        Whether user-defined functions are given whole columns, as in the batch reader, and not
        the values of one row.

    Attributes
    ----------
    columns : tuple of str
        The columns, all of them.
    fields : frozenset of str
        Those that the predicate looks at.

    Raises
    ------
    InvalidArgumentError
        If it looks at no column, or at others than are read.
    """

    def __init__(self, predicate: PredicateBase, schema: Schema, batched: bool) -> None:
        self.columns = schema.names
        self.fields = _checked_fields(predicate, schema)
        self._predicate = predicate
        self._schema = schema
        self._batched = batched

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows that the predicate includes; the same batch if those are all."""
        return keep_rows(batch, self.mask(batch))

    def mask(self, batch: Batch) -> Mask:
        """Return for each row of a batch whether the predicate includes it."""
        fields = {name: batch[name] for name in self.columns if name in self.fields}
        return predicate_mask(self._predicate, FieldRows(fields, self._schema, self._batched))


def keep_rows(batch: Batch, mask: Mask) -> Batch:
    """Return the rows of a batch where `mask` is true; the same batch if those are all."""
    if mask.all():
        return batch
    rows = np.flatnonzero(mask)
    return {name: take_values(values, rows) for name, values in batch.items()}


def _checked_fields(predicate: PredicateBase, schema: Schema) -> frozenset[str]:
    fields = frozenset(predicate.get_fields())
    if not fields:
        raise InvalidArgumentError(
            "At least one field name must be returned by get_fields() of the predicate, found "
            "none: name the fields that it uses"
        )
    unknown = sorted(str(name) for name in fields if name not in schema)
    if unknown:
        raise InvalidArgumentError(
            f"At least some column names requested by the predicate ({', '.join(unknown)}) are "
            f"not valid schema names: ({', '.join(schema.names)}), which are the columns that are "
            "read. Check the names, and that schema_fields includes them"
        )
    return fields
