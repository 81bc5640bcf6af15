"""Warn about columns of decimals, on which no model can be trained."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Literal, TypeAlias

from mdstorm._readers.arguments import ReaderArguments
from mdstorm_backend.base import warn_user
from mdstorm_backend.format import Column, holds_decimals
from mdstorm_backend.loaders import ReaderOptions

Framework: TypeAlias = Literal["PyTorch", "TensorFlow"]

_FORMS = {"PyTorch": "a list of Decimal", "TensorFlow": "text"}


def undecided_decimals(
    options: ReaderOptions, arguments: ReaderArguments, names: Iterable[str]
) -> tuple[str, ...]:
    """Return the columns among `names` that are decimals, unless the user chose a form.

    What a function of the user's makes of them is not counted.
    """
    if arguments.decimals is not None:
        return ()
    columns = map(options.column, names)
    return tuple(column.name for column in columns if column is not None and _is_decimal(column))


def _is_decimal(column: Column) -> bool:
    encoding = column.parsed_encoding
    if encoding.is_opaque:
        return False
    return encoding.kind == "str_decimal" or holds_decimals(column.arrow_type)


@cache
def warn_of_decimals(url: str, names: tuple[str, ...], framework: Framework) -> None:
    """Warn once per process about how columns of decimals are delivered."""
    if not names:
        return
    columns, hold = ("columns", "hold") if len(names) > 1 else ("column", "holds")
    listed = ", ".join(map(repr, names))
    warn_user(
        f"{columns} {listed} of {url} {hold} decimals, which are delivered to {framework} as "
        f'{_FORMS[framework]}, and no model takes that. For numbers, pass decimals="float64" or '
        '"float32" to make_spark_converter, or to the function that creates the reader or '
        'loader. decimals="decimal" keeps decimals, without this warning'
    )
