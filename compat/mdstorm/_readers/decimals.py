"""Warn about decimal columns, which reach a framework as something that no model can use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Literal, TypeAlias

from mdstorm._readers.arguments import ReaderArguments
from mdstorm_backend.base import warn_user
from mdstorm_backend.format import holds_decimals
from mdstorm_backend.loaders import ReaderOptions

Framework: TypeAlias = Literal["PyTorch", "TensorFlow"]
_FORMS = {"PyTorch": "a list of Decimal", "TensorFlow": "text"}


def undecided_decimals(
    options: ReaderOptions, arguments: ReaderArguments, names: Iterable[str]
) -> tuple[str, ...]:
    """Return the decimal columns among `names`; none if the user chose a type for decimals.

    Columns that the user's function returns are not counted.
    """
    if arguments.added["decimals"] is not None:
        return ()
    found = (column for column in map(options.reading.column, names) if column is not None)
    return tuple(
        column.name
        for column in found
        if not column.parsed_encoding.is_opaque
        and (column.parsed_encoding.kind == "str_decimal" or holds_decimals(column.arrow_type))
    )


@cache
def warn_of_decimals(url: str, names: tuple[str, ...], framework: Framework) -> None:
    """Warn once per process about how decimal columns are returned."""
    if not names:
        return
    columns, hold = ("columns", "hold") if len(names) > 1 else ("column", "holds")
    listed = ", ".join(map(repr, names))
    warn_user(
        f"{columns} {listed} of {url} {hold} decimals, which reach {framework} as "
        f'{_FORMS[framework]}, and no model can use them. For numbers, pass decimals="float64" or '
        '"float32" to make_spark_converter, or to the function that creates the reader or '
        'loader. decimals="decimal" keeps decimals, without this warning'
    )
