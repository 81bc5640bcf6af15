"""Handle nulls before they reach tensors: fill them, or mask them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.batch import Batch, Values, as_arrow
from mdstorm_backend.loaders.null_fills import check_fill, default_of, filled, is_row
from mdstorm_backend.read.formats import column_to_numpy

#: A mask column is named after the column it belongs to.
MASK_SUFFIX = "_is_null"


class NullPolicy:
    """What the user asked to do about nulls.

    Parameters
    ----------
    schema : Schema
        The columns that are read.
    fill : mapping of str to value, optional
        What takes the place of nulls in a column. In a column of arrays a number takes the place
        of null elements, and a null array becomes as many of them as every array of the column
        has, or none where that varies, as a null array inside of another does; a sequence takes
        the place of a null array, and null elements stay.
    masks : sequence of str, optional
        Columns that get a boolean companion ``<name>_is_null``. Their own nulls become 0 or NaN
        unless `fill` says otherwise.

    Raises
    ------
    ArgumentTypeError
        If a column is unknown.
    """

    def __init__(
        self, schema: Schema, fill: Mapping[str, Any] | None = None, masks: Sequence[str] = ()
    ) -> None:
        self.fill = dict(fill or {})
        self.masks = tuple(masks)
        unknown = [name for name in [*self.fill, *self.masks] if name not in schema]
        if unknown:
            raise ArgumentTypeError(
                f"fill_nulls and null_masks name columns {unknown} that are not read; read are "
                f"{list(schema.names)}"
            )
        taken = [name for name in self.masks if name + MASK_SUFFIX in schema]
        if taken or len(set(self.masks)) < len(self.masks):
            raise InvalidArgumentError(
                f"null_masks={list(self.masks)} would make a column {MASK_SUFFIX[1:]!r} twice, or "
                f"replace one that exists ({taken}): name each column once, and rename that column"
            )
        self._schema = schema
        for name, value in self.fill.items():
            check_fill(schema[name], value)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns afterwards."""
        return (*self._schema.names, *(name + MASK_SUFFIX for name in self.masks))

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to do."""
        return not self.fill and not self.masks

    def remaining(self, column: Column) -> int:
        """Nulls of a column that are still there afterwards."""
        after = self.afterwards(column)
        return after.null_count + after.element_null_count

    def afterwards(self, column: Column) -> Column:
        """Return a column as it is afterwards."""
        if not self._is_treated(column):
            return column
        stays = is_row(self.fill.get(column.name))
        elements = column.element_null_count if stays else 0
        return replace(column, null_count=0, element_null_count=elements)

    def _is_treated(self, column: Column) -> bool:
        return column.name in self.fill or column.name in self.masks

    def __call__(self, batch: Batch) -> Batch:
        """Fill and mask the nulls of a batch that was read with exact nulls."""
        result = {column.name: self._treat(batch[column.name], column) for column in self._schema}
        for name in self.masks:
            result[name + MASK_SUFFIX] = np.asarray(as_arrow(batch[name]).is_null()).copy()
        return result

    def _treat(self, values: Values, column: Column) -> Values:
        if isinstance(values, np.ndarray) or not column.may_have_nulls:
            return values
        if (column.is_nested or column.is_late) and column.name not in self.fill:
            return values  # delivered as Python objects, which have None
        if self._is_treated(column):
            fill = self.fill.get(column.name, default_of(column))
            return _to_values(filled(values, fill, column), self.afterwards(column))
        if column.is_numpy():
            return column_to_numpy(values, column)
        return values


def _to_values(values: pa.Array, column: Column) -> Values:
    """Return filled values as the column would be without nulls: NumPy where sizes are fixed."""
    fixed_size = replace(column, element_null_count=0).is_numpy()
    return column_to_numpy(values, column) if fixed_size else values
