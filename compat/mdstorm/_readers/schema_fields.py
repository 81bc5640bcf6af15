"""Select columns by ``schema_fields``, and build the schema of the output."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm._schema import UnischemaField, fields_of_columns, is_left_out
from mdstorm.errors import InvalidArgumentError, NoMatchingFieldsError
from mdstorm.transform import TransformSpec
from mdstorm.unischema import Unischema, warn_of_prefixes
from mdstorm_backend.base import choose_among, did_you_mean, warn_user
from mdstorm_backend.format import Column, Schema, holds_decimals
from mdstorm_backend.loaders import MASK_SUFFIX
from mdstorm_backend.read import ImageDecoder

_OR_AS_FLOATS = ', or pass decimals="float64" for arrays of numbers'


def select_fields(
    schema: Schema, fields: Any, decoded: Collection[str] = (), others: Collection[str] = ()
) -> Schema:
    """Return the columns that ``schema_fields`` selects, in stored order.

    Parameters
    ----------
    schema : Schema
        All columns.
    fields : collection of str or of objects with a name, or None
        Regular expressions that match whole names, or fields. If None or empty, all columns are
        selected except structs, maps and nested lists in Parquet files, which are skipped with a
        warning, as in Petastorm.
    decoded : collection of str
        Columns of images to decode, which are never skipped.
    others : collection of str
        Names that `fields` may have: of columns that other arguments make, and of those that were
        left out with a warning.

    Raises
    ------
    NoMatchingFieldsError
        If no column is selected.
    InvalidArgumentError
        If `fields` has an unsupported type, or one of the fields is not a column.
    """
    if not schema.names:
        raise NoMatchingFieldsError(
            "the dataset has no columns, because no sample was written to it: write some first"
        )
    if fields is None or (isinstance(fields, Collection) and not fields):
        chosen = _plain_columns(schema, decoded)
    else:
        chosen = _matching_columns(schema, fields, others)
    if not chosen:
        names = list(schema.names)
        nearest = "".join(did_you_mean(f, names) for f in fields or () if isinstance(f, str))
        remedy = (
            nearest or ": list at least one of them in schema_fields"
            if fields
            else ". They hold structs, maps or nested lists, which are skipped unless you list "
            f"them: pass schema_fields={names[:1]}"
        )
        raise NoMatchingFieldsError(
            f"No fields matching the criteria '{fields}' were found in the dataset, whose columns "
            f"are {names}{remedy}"
        )
    return schema.select(chosen)


def _matching_columns(
    schema: Schema, fields: Collection[Any], others: Collection[str]
) -> list[str]:
    """Return the columns that fields or expressions match; warn about names that match none."""
    patterns = [re.compile(pattern) for pattern in field_patterns(fields)]
    for field in fields:
        if not isinstance(field, str) and field.name not in schema:
            raise InvalidArgumentError(
                f"field {field.name!r} does not belong to the schema, whose columns are "
                f"{list(schema.names)}"
            )
    chosen = [name for name in schema.names if any(p.fullmatch(name) for p in patterns)]
    expressions = [field for field in fields if isinstance(field, str)]
    warn_of_prefixes(schema.names, set(schema.names).difference(chosen), expressions)
    for expression in [each for each in expressions if each not in others] if chosen else ():
        is_void = not any(re.match(expression, name) for name in schema.names)
        if is_void and (expression.isidentifier() or did_you_mean(expression, schema.names)):
            known = choose_among(expression, schema.names)
            warn_user(f"schema_fields: no column matches {expression!r}{known}")
    return chosen


def _plain_columns(schema: Schema, decoded: Collection[str]) -> list[str]:
    left_out = [c for c in schema if is_left_out(c) and c.name not in decoded]
    for column in left_out:
        reason = (
            "[ARROW-1644] Ignoring unsupported structure"
            if pa.types.is_list(column.arrow_type)
            else "Ignoring..."
        )
        warnings.warn(  # located at this line, so that Python shows it once per process
            f"Column {column.name!r} has an unsupported field type. {reason} for field "
            f"{column.name!r}. It is kept in the dataset; list it in schema_fields to read it"
            f"{_OR_AS_FLOATS if holds_decimals(column.arrow_type) else ''}",
            stacklevel=1,
        )
    skipped = {column.name for column in left_out}
    return [name for name in schema.names if name not in skipped]


def field_patterns(fields: Any) -> list[str]:
    """Return ``schema_fields`` as regular expressions.

    Raises
    ------
    InvalidArgumentError
        If `fields` is not a collection of expressions or fields, or an expression is invalid.
    NoMatchingFieldsError
        If `fields` is a single string: Petastorm would treat each character as an expression.
    """
    if isinstance(fields, str):
        raise NoMatchingFieldsError(
            f"Fields must be either None, an iterable of regular expressions or of fields, found "
            f"the string {fields!r}: put it in a list. No fields matching the criteria"
        )
    if not isinstance(fields, Collection):  # a generator could be consumed only once
        raise InvalidArgumentError(
            f"Fields must be either None, an iterable of regular expressions or of fields, found "
            f"{fields!r}: put it in a list"
        )
    patterns = []
    for field in fields:
        if not isinstance(field, str) and not hasattr(field, "name"):
            raise InvalidArgumentError(
                f'Elements of "fields" must be either a string or a field with a name, found '
                f"{field!r}"
            )
        patterns.append(field if isinstance(field, str) else re.escape(field.name))
        try:
            re.compile(patterns[-1])
        except re.error as error:
            # In a pattern for file names, "*" stands for any text.
            pattern = re.escape(field).replace(r"\*", ".*").replace(r"\?", ".")
            raise InvalidArgumentError(
                f"schema_fields holds {field!r}, which is not a regular expression ({error}): "
                f"write {pattern!r}"
            ) from error
    return patterns


def output_schema(
    unischema: Unischema,
    outputs: Sequence[str],
    images: ImageDecoder | None = None,
    *,
    chosen: bool,
    spec: TransformSpec | None,
    given: Iterable[Column] = (),
) -> Unischema:
    """Return the schema of the output columns, with the name that Petastorm gives it.

    Parameters
    ----------
    unischema : Unischema
        All fields of the dataset.
    outputs : sequence of str
        Names of the output columns, in order.
    images : ImageDecoder or None
        Decoder of image columns.
    chosen : bool
        Whether the user selected fields.
    spec : TransformSpec or None
        The transform.
    given : iterable of Column
        The columns that a transform gets, of which arguments may have made some.

    Returns
    -------
    Unischema
        Nested columns, which Petastorm never reads, have dtype object.
    """
    edited = {} if spec is None else spec._mdstorm_edited()
    made = [column for column in given if column.name not in unischema.fields]
    fields = {**unischema.fields, **{one.name: one for one in fields_of_columns(made)}}

    def field_of(name: str) -> UnischemaField:
        if name in edited:
            _, dtype, shape, nullable = edited[name]
            return UnischemaField(name, dtype, shape, None, nullable)
        if images is not None and name in images.names:
            return UnischemaField(name, np.uint8, images.shape, None, False)
        if name in fields:
            return fields[name]
        if name.removesuffix(MASK_SUFFIX) in fields:
            return UnischemaField(name, np.bool_, (), None, False)
        return UnischemaField(name, np.object_, (), None, True)

    name = output_schema_name(unischema._name, chosen=chosen, spec=spec)
    return Unischema(name, map(field_of, outputs))


def output_schema_name(name: str, *, chosen: bool, spec: TransformSpec | None) -> str:
    """Return the name that Petastorm gives to the schema of the output columns."""
    return name + ("_view" if chosen else "") + ("" if spec is None else "_transformed")
