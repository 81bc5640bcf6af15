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

_BYTE, _DOUBLE, _BINARY, _LIST, _STRUCT = 3, 7, 8, 9, 12


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
    if level > _MOST_LEVELS:
        raise ValueError("it is nested too deeply")
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 0x0F
        if head > 0x0F:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        if _BYTE < kind < _DOUBLE:  # nearly all are integers, and small
            value, at = (data[at], at + 1) if data[at] < 0x80 else _size(data, at)
            if wanted.get(number) is int:
                fields[number] = (value >> 1) ^ -(value & 1)
        elif kind == _STRUCT:
            inner = wanted.get(number)
            if isinstance(inner, Mapping):
                fields[number], at = _struct(data, at, inner, level + 1)
            else:
                at = _struct(data, at, _NOTHING, level + 1)[1]
        elif kind == _LIST:
            inner = wanted.get(number)
            if isinstance(inner, list):
                fields[number], at = _list(data, at, inner[0], level)
            else:
                at = _list(data, at, _NOTHING, level)[1]
        elif kind == _BINARY:
            start, at = _binary(data, at)
            if wanted.get(number) is bytes:
                fields[number] = data[start:at]
        else:
            at += _size_of(kind, in_list=False)
    return fields, at + 1


def _list(data: bytes, at: int, wanted: Wanted, level: int) -> tuple[list[Struct], int]:
    """Return the structs of a list, of which other values are skipped."""
    size, kind = data[at] >> 4, data[at] & 0x0F
    at += 1
    if size == 0x0F:
        size, at = _size(data, at)
    found: list[Struct] = []
    if kind == _STRUCT:
        for _ in range(size):  # each takes a byte, at least
            one, at = _struct(data, at, wanted, level + 1)
            if wanted:
                found.append(one)
    elif _BYTE < kind < _DOUBLE:
        for _ in range(size):
            at = at + 1 if data[at] < 0x80 else _size(data, at)[1]
    elif kind == _BINARY:
        for _ in range(size):
            at = _binary(data, at)[1]
    else:
        at += size * _size_of(kind, in_list=True)
    return found, at


def _size_of(kind: int, *, in_list: bool) -> int:
    """Return the bytes that a value takes; the type of a boolean says its value, but in a list."""
    if kind in (1, 2):
        return int(in_list)
    if kind in (_BYTE, _DOUBLE):
        return 1 if kind == _BYTE else 8
    raise ValueError(f"it holds a value of type {kind}, which Parquet does not have")


def _binary(data: bytes, at: int) -> tuple[int, int]:
    """Return where bytes begin and end."""
    size, at = (data[at], at + 1) if data[at] < 0x80 else _size(data, at)
    return at, at + size


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _size(data, at)
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
