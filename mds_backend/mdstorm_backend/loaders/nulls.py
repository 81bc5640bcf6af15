"""Check nulls that become tensors, or raise errors for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.display import counted
from mdstorm_backend.format import Column

_logger = logging.getLogger(__name__)

#: Up to this number, float64 can represent every integer.
_EXACT = 1 << 53


def check_exact(values: pa.Array, name: str) -> None:
    """Raise if a column with nulls holds integers that its output type, float64, cannot represent.

    Raises
    ------
    NullValueError
        If the column holds such an integer.
    """
    if not pa.types.is_integer(values.type) or values.type.bit_width < 64:
        return
    bounds = pc.min_max(values).as_py()
    largest = max((bound for bound in bounds.values() if bound is not None), key=abs, default=0)
    if abs(largest) > _EXACT:
        raise errors.NullValueError(
            f"column {name!r} holds nulls and the integer {largest}: integers with nulls are "
            f"returned as float64, which cannot represent all integers beyond {_EXACT}. To keep "
            f"the values integers, fill the nulls with fill_nulls={{{name!r}: …}}, or add a mask "
            f"column with null_masks=[{name!r}]",
            columns={name: values.null_count},
        )


def null_error(
    name: str, count: int, framework: str, *, inside: bool = False
) -> errors.NullValueError:
    """Return the error for a column with nulls that `framework` cannot represent.

    Parameters
    ----------
    name : str
        Name of the column.
    count : int
        Number of its nulls.
    framework : str
        ``"PyTorch"`` or ``"TensorFlow"``.
    inside : bool
        Whether some of the nulls are inside arrays.
    """
    return _null_error({name: count}, framework, inside=inside)


def check_nulls(
    columns: Iterable[Column], framework: str, needs_value: Callable[[Column], bool]
) -> None:
    """Raise one error for all columns with nulls that `framework` cannot represent.

    For every other column whose nulls become NaN, a warning is logged once per process.

    Parameters
    ----------
    columns : iterable of Column
        The output columns.
    framework : str
        ``"PyTorch"`` or ``"TensorFlow"``.
    needs_value : callable
        Returns whether nulls in a column would become an arbitrary value.

    Raises
    ------
    NullValueError
        If there is such a column.
    """
    with_nulls = [column for column in columns if column.has_nulls]
    found = [column for column in with_nulls if needs_value(column)]
    if found:
        inside = any(column.element_null_count > 0 for column in found)
        raise _null_error({c.name: _nulls_of(c) for c in found}, framework, inside=inside)
    for column in with_nulls:
        if _becomes_nan(column):
            _warn_of_nan(column.origin.url, column.name, _nulls_of(column), framework)


def _nulls_of(column: Column) -> int:
    return column.null_count + column.element_null_count


def _becomes_nan(column: Column) -> bool:
    """Whether nulls in a column, if allowed, become NaN rather than None in a list of values."""
    type_ = column.element_type if column.is_array else column.arrow_type
    types = pa.types
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_duration(type_))


@cache
def _warn_of_nan(url: str, name: str, count: int, framework: str) -> None:
    """Log, once per column, that its nulls become NaN, which makes training impossible."""
    _logger.warning(
        "Column %r of %s holds %s, which %s receives as NaN, so the loss becomes NaN. Replace "
        "them with fill_nulls={%r: …}, mark them with null_masks=[%r], or drop such rows before "
        "converting. fill_nulls={%r: float('nan')} keeps NaN in a column of floats without this "
        "warning",
        name,
        url,
        counted(count, "null"),
        framework,
        name,
        name,
        name,
    )


def _null_error(
    counts: Mapping[str, int], framework: str, *, inside: bool
) -> errors.NullValueError:
    names = list(counts)
    several = len(names) > 1
    one = "a value, which also replaces nulls inside arrays," if inside else "a value"
    where = ", ".join(f"({name!r}, '!=', None)" for name in names)
    drop = (
        ""
        if inside
        else f" with df.na.drop(subset={names!r}), or while reading with where=[{where}]"
    )
    fills = ", ".join(f"{name!r}: …" for name in names)
    held = (
        f"columns {', '.join(f'{name!r} ({count})' for name, count in counts.items())} hold nulls"
        if several
        else f"column {names[0]!r} holds {counted(counts[names[0]], 'null')}"
    )
    return errors.NullValueError(
        f"{held}, and {framework} has no value that means null there. "
        f"Give {'each ' if several else ''}{one} with fill_nulls={{{fills}}}, add "
        f"{'mask columns' if several else 'a mask column'} with null_masks={names!r}, fill the "
        f"nulls in the transform, or drop such rows before converting{drop}",
        columns=counts,
    )
