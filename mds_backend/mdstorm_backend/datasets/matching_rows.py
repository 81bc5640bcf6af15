"""Conditions of ``where=``: their form, and which rows of a dataset match.

A condition is evaluated as a `pyarrow.compute.Expression` over the columns that it names. The
result is kept with the cached shards of the dataset, under a lock, so that of all processes on a
machine one reads the columns, once.
"""

from __future__ import annotations

import hashlib
import logging
import operator
import pickle
import re
import time
from collections.abc import Callable, Collection
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base import choose_among
from mdstorm_backend.cache import keep_array
from mdstorm_backend.datasets.sample_dataset import SampleDataset
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format import Schema

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "in": lambda field, values: field.isin(values),
    "not in": lambda field, values: ~field.isin(values),
}
#: Name of the column that numbers the rows.
_ROW = "mdstorm: row"
_ERRORS = (pa.ArrowException, TypeError, ValueError, KeyError, OverflowError)

_logger = logging.getLogger(__name__)


def check_where(name: str, where: Any) -> None:
    """Raise an error unless `where` is None, an expression, or conditions like ``filters=``.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If it is something else.
    """
    if where is None or isinstance(where, pc.Expression):
        return
    if not isinstance(where, (list, tuple)):
        raise ArgumentTypeError(f"{name}={where!r}: {_FORM}")
    alternatives = _alternatives(where)
    terms = [term for terms in alternatives for term in terms]
    if not all(alternatives) or not terms:
        raise InvalidArgumentError(f"{name}={where!r}: {_FORM}")
    for term in terms:
        if not isinstance(term, (list, tuple)) or len(term) != 3 or term[1] not in _OPERATORS:
            raise InvalidArgumentError(f"{name} has the condition {term!r}: {_FORM}")
        if term[1] in ("in", "not in") and not _is_collection(term[2]):
            raise InvalidArgumentError(
                f"{name} has the condition {term!r}: {term[1]!r} needs a list of values"
            )


_FORM = (
    "where= is a list of tuples (column, operator, value), all of which must hold, or a list of "
    f"such lists, one of which must; operators are {', '.join(_OPERATORS)}. It can also be an "
    'expression such as pyarrow.compute.field("x") > 3'
)


def matching_rows(dataset: SampleDataset, where: Any) -> npt.NDArray[np.bool_]:
    """Return whether each row of a dataset matches `where`, which has been checked.

    Raises
    ------
    InvalidArgumentError
        If the dataset does not have a column, or it cannot be compared like this.
    """
    expression = where
    try:
        if not isinstance(where, pc.Expression):
            expression = _expression(where, dataset.schema)
        _ = dataset.schema.arrow_schema.empty_table().filter(expression)
    except _ERRORS as error:
        nearest = ""
        if unknown := [name for name in _names(where) if name not in dataset.schema]:
            nearest = f". {dataset.url} has no columns {unknown}"
            nearest += choose_among(unknown[0], dataset.schema.names)
        raise InvalidArgumentError(
            f"where={where} cannot be evaluated over the columns {list(dataset.schema.names)} of "
            f"{dataset.url} ({error}){nearest}"
        ) from error
    # Its text would leave out some of many values.
    key = hashlib.sha256(pickle.dumps(expression)).hexdigest()[:24]
    evaluate = partial(_evaluate, dataset, expression)
    bits = keep_array(dataset.url, dataset.fingerprint, f"where-{key}.npy", evaluate)
    return np.unpackbits(bits, count=len(dataset)).astype(np.bool_)


def _evaluate(
    dataset: SampleDataset, expression: Any, progress: Callable[[], object]
) -> npt.NDArray[np.uint8]:
    """Read the columns that an expression names; return a bit for each row."""
    begun, text = time.monotonic(), " ".join(str(expression).split())
    found = np.zeros(len(dataset), np.bool_)
    first = 0
    # A name may also occur as a value; reading its column does no harm.
    words = r"(?<!\w){}(?!\w)"
    names = [n for n in dataset.schema.names if re.search(words.format(re.escape(n)), text)]
    for batch in dataset.batches(_AT_A_TIME, format="arrow", columns=names or None):
        table = pa.Table.from_batches([batch])
        rows = pa.array(np.arange(first, first + len(table)))
        matching = table.append_column(_ROW, rows).filter(expression)
        found[matching[_ROW].to_numpy()] = True
        first += len(table)
        progress()
    _logger.info(
        "where=%s matches %d of %d rows of %s, found in %.1f s",
        *(text, np.count_nonzero(found), len(found), dataset.url, time.monotonic() - begun),
    )
    return np.packbits(found)


#: Rows that are read at a time.
_AT_A_TIME = 1 << 16


def _alternatives(where: Any) -> list[list[Any]]:
    """Return lists of conditions, one of which must hold."""
    if where and all(isinstance(one, tuple) and one and isinstance(one[0], str) for one in where):
        return [list(where)]
    return [list(one) if isinstance(one, (list, tuple)) else [] for one in where]


def _is_collection(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes))


def _names(where: Any) -> list[str]:
    """Return the columns that conditions name; none for an expression."""
    if isinstance(where, pc.Expression):
        return []
    return [name for terms in _alternatives(where) for name, _, _ in terms]


def _expression(where: Any, schema: Schema) -> Any:
    alternatives = [
        reduce(operator.and_, [_condition(schema, *term) for term in terms])
        for terms in _alternatives(where)
    ]
    return reduce(operator.or_, alternatives)


def _condition(schema: Schema, name: str, comparison: str, value: Any) -> Any:
    field, type_ = pc.field(name), schema[name].arrow_type
    if value is None and comparison in ("=", "==", "!="):
        return field.is_valid() if comparison == "!=" else field.is_null()
    is_several = comparison in ("in", "not in")
    # A set of strings has another order in each process.
    made = pa.array(sorted(value, key=repr)) if is_several else pa.scalar(value)
    if pa.types.is_timestamp(type_):  # with or without a time zone; times are in UTC
        made = made.cast(pa.timestamp("us", type_.tz))
    return _OPERATORS[comparison](field, made)
