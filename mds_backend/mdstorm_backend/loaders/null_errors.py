"""Refuse nulls that a framework has no value for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mdstorm_backend.display import counted
from mdstorm_backend.errors import NullValueError
from mdstorm_backend.format.schema import Column


def null_error(name: str, count: int, framework: str, *, inside: bool = False) -> NullValueError:
    """Return the error for a column whose nulls `framework` has no value for.

    Parameters
    ----------
    name : str
        The column.
    count : int
        How many nulls it holds.
    framework : str
        ``"PyTorch"`` or ``"TensorFlow"``.
    inside : bool
        Whether some of them are inside of arrays.
    """
    return _null_error({name: count}, framework, inside=inside)


def refuse_nulls(found: Iterable[tuple[Column, int]], framework: str) -> None:
    """Refuse columns whose nulls `framework` has no value for, all of them in one message.

    Parameters
    ----------
    found : iterable of tuple of Column and int
        Such columns, with their numbers of nulls.
    framework : str
        ``"PyTorch"`` or ``"TensorFlow"``.

    Raises
    ------
    NullValueError
        If there is one.
    """
    columns = {column.name: (column, count) for column, count in found}
    if columns:
        raise _null_error(
            {name: count for name, (_, count) in columns.items()},
            framework,
            inside=any(column.element_null_count > 0 for column, _ in columns.values()),
        )


def _null_error(counts: Mapping[str, int], framework: str, *, inside: bool) -> NullValueError:
    names = list(counts)
    several = len(names) > 1
    one = "a number, for nulls inside of arrays as well," if inside else "one"
    drop = "" if inside else f": df.na.drop(subset={names!r})"
    fills = ", ".join(f"{name!r}: …" for name in names)
    held = (
        f"columns {', '.join(f'{name!r} ({count})' for name, count in counts.items())} hold nulls"
        if several
        else f"column {names[0]!r} holds {counted(counts[names[0]], 'null')}"
    )
    return NullValueError(
        f"{held}, and {framework} has no value that means null there. "
        f"Give {'each ' if several else ''}{one} with fill_nulls={{{fills}}}, ask for "
        f"{'mask columns' if several else 'a mask column'} with null_masks={names!r}, fill them in "
        f"the transform, or leave such rows out before converting{drop}",
        columns=counts,
    )
