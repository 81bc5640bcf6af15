"""Read some fields of the footers of Parquet files, which are structs of Thrift's compact protocol.

pyarrow reads footers, too, but if what a footer says of a column is damaged, asking pyarrow for it
ends the process: its library throws what nothing catches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

#: Numbers of the fields to keep, each with its type: ``int``, ``bytes``, the fields to keep of a
#: struct, or a list of these alone for a list of structs. Fields of another type are left out.
Wanted: TypeAlias = Mapping[int, Any]
#: The fields of a struct by their numbers: integers, bytes, structs and lists of structs.
Struct: TypeAlias = dict[int, Any]

_NOTHING: Wanted = {}
_MOST_LEVELS = 24  # Parquet's own structs have fewer than ten

_BOOLEANS, _BYTE, _DOUBLE, _BINARY, _LIST, _STRUCT = (1, 2), 3, 7, 8, 9, 12


def read_struct(data: bytes, wanted: Wanted) -> Struct:
    """Return the wanted fields of the struct that `data` begins with.

    Raises
    ------
    ValueError
        If it is not a struct of the types that Parquet has.
    """
    try:
        return _struct(data, 0, wanted, 0)[0]
    except IndexError as error:
        raise ValueError("it ends too early") from error


def _struct(data: bytes, at: int, wanted: Wanted, level: int) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 0x0F
        if head > 0x0F:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        if kind in _BOOLEANS:  # which are the value, too
            continue
        keep = wanted.get(number)
        value, at = _value(data, at, kind, keep, level)
        if keep is not None and isinstance(value, keep if type(keep) is type else type(keep)):
            fields[number] = value
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, keep: Any, level: int) -> tuple[Any, int]:
    """Return a value, and where it ends."""
    if _BYTE < kind < _DOUBLE:
        return _integer(data, at)
    if kind == _BINARY:
        size, at = _size(data, at)
        return data[at : at + size], at + size
    if level > _MOST_LEVELS:
        raise ValueError("it is nested too deeply")
    if kind == _STRUCT:
        return _struct(data, at, keep if isinstance(keep, Mapping) else _NOTHING, level + 1)
    if kind == _LIST:
        return _list(data, at, keep[0] if isinstance(keep, list) else None, level + 1)
    if kind == _BYTE or kind in _BOOLEANS:
        return None, at + 1
    if kind == _DOUBLE:
        return None, at + 8
    raise ValueError(f"it holds a value of type {kind}, which Parquet does not have")


def _list(data: bytes, at: int, keep: Wanted | None, level: int) -> tuple[list[Struct], int]:
    """Return the structs of a list, of which other values are skipped."""
    size, kind = data[at] >> 4, data[at] & 0x0F
    at += 1
    if size == 0x0F:
        size, at = _size(data, at)
    found: list[Struct] = []
    for _ in range(size):
        data[at]  # each takes a byte, at least: the size may be any number
        one, at = _value(data, at, kind, keep, level)
        if keep is not None and kind == _STRUCT:
            found.append(one)
    return found, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = (data[at], at + 1) if data[at] < 0x80 else _size(data, at)
    return (value >> 1) ^ -(value & 1), at


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Read a number that takes as many bytes as it needs."""
    value = shift = 0
    while (byte := data[at]) > 0x7F:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("it holds a number of more than 64 bits")
    return value | byte << shift, at + 1
