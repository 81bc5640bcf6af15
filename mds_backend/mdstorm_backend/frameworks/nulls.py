"""Nulls on their way into tensors: filled, masked, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.batch import Batch, Values, as_arrow
from mdstorm_backend.errors import ArgumentTypeError, NullValueError
from mdstorm_backend.frameworks.formats import column_to_numpy
from mdstorm_backend.schema import Column, Schema

__all__ = ["MASK_SUFFIX", "NullPolicy", "null_error"]

#: A mask column is named after the column it belongs to.
MASK_SUFFIX = "_is_null"


class NullPolicy:
    """What the user asked to do about nulls.

    Parameters
    ----------
    schema : Schema
        The columns that are read.
    fill : mapping of str to value, optional
        What takes the place of a null in a column, or of null elements in its arrays.
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
        self._schema = schema

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
        if column.name in self.fill or column.name in self.masks:
            return 0
        return column.null_count + column.element_null_count

    def __call__(self, batch: Batch) -> Batch:
        """Fill and mask the nulls of a batch that was read with exact nulls."""
        result = {column.name: self._treat(batch[column.name], column) for column in self._schema}
        for name in self.masks:
            result[name + MASK_SUFFIX] = np.asarray(as_arrow(batch[name]).is_null()).copy()
        return result

    def _treat(self, values: Values, column: Column) -> Values:
        if isinstance(values, np.ndarray) or not column.has_nulls:
            return values
        if self.remaining(column) == 0:
            return _to_values(_filled(values, self.fill.get(column.name, _default(column))), column)
        if column.is_numpy():
            return column_to_numpy(values, column)
        return values


def null_error(name: str, count: int, framework: str) -> NullValueError:
    """Return the error for a column whose nulls `framework` has no value for."""
    return NullValueError(
        f"column {name!r} holds {count} nulls, and {framework} has no value that means null there. "
        f"Give one with fill_nulls={{{name!r}: …}}, ask for a mask column with "
        f"null_masks=[{name!r}], fill them in the transform, or leave such rows out before "
        f"converting: df.na.drop(subset=[{name!r}])",
        column=name,
        null_count=count,
    )


def _default(column: Column) -> Any:
    """What takes the place of a null under a mask."""
    element = column.arrow_type.value_type if column.is_array else column.arrow_type
    if pa.types.is_floating(element):
        return float("nan")
    if pa.types.is_string(element) or pa.types.is_large_string(element):
        return ""
    if pa.types.is_binary(element):
        return b""
    return pa.scalar(0).cast(pa.int32() if pa.types.is_date(element) else pa.int64()).as_py()


def _filled(values: pa.Array, fill: Any) -> pa.Array:
    if not pa.types.is_list(values.type):
        return pc.fill_null(values, _scalar(fill, values.type))
    flat = values.flatten()
    if flat.null_count:
        flat = pc.fill_null(flat, _scalar(fill, flat.type))
        lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        mask = values.is_null() if values.null_count else None
        values = pa.ListArray.from_arrays(pa.array(offsets), flat, mask=mask)
    return values


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_temporal(type_) and isinstance(value, int):
        return pa.scalar(value, pa.int32() if pa.types.is_date(type_) else pa.int64()).cast(type_)
    return pa.scalar(value, type_)


def _to_values(values: pa.Array, column: Column) -> Values:
    """Return filled values as the column would be without nulls: NumPy where sizes are fixed."""
    if values.null_count:
        return values
    plain = Column(column.name, column.encoding, column.spark_type, length=column.length)
    return column_to_numpy(values, plain) if plain.is_numpy() else values
