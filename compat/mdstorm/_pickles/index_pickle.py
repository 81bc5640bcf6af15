"""Read and write the pickle of Petastorm's row group indexes. Petastorm need not be installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._pickles.restricted_unpickler import (
    StandIn,
    attributes,
    damage_refused,
    entries,
    expect,
    read_pickle,
    refused,
    scalar,
    text_of,
)
from mdstorm._pickles.schema_pickle import (
    binary,
    boolean,
    called,
    imported,
    instance,
    integer,
    items,
    list_of,
    number,
    text,
    tuple_of,
)
from mdstorm.errors import InvalidArgumentError

_INDEXERS = "petastorm.etl.rowgroup_indexers"
_KINDS = (f"{_INDEXERS}.SingleFieldIndexer", f"{_INDEXERS}.FieldNotNullIndexer")
_SET = imported("builtins", "set")
#: The path that both NumPy 1 and 2 can import.
_SCALAR = imported("numpy.core.multiarray", "scalar")
_DTYPE = imported("numpy", "dtype")


@dataclass(frozen=True)
class StoredIndex:
    """One index of row groups.

    Attributes
    ----------
    kind : str
        ``"SingleFieldIndexer"`` or ``"FieldNotNullIndexer"``.
    index_name, column_name : str
        Name of the index, and the field that it is of.
    row_groups : dict of (object to set of int), or set of int
        Numbers of the row groups that hold each value; or that hold any value.
    """

    kind: str
    index_name: str
    column_name: str
    row_groups: dict[Any, set[int]] | set[int]


def load_indexes(data: bytes) -> dict[str, StoredIndex]:
    """Return the indexes of row groups in a pickle, by name, without running anything in it.

    Parameters
    ----------
    data : bytes
        Value of the metadata key ``dataset-toolkit.rowgroups_index.v1``.

    Raises
    ------
    UnsafePickleError
        If it is anything else; also `pickle.UnpicklingError`.
    """
    with damage_refused():
        allowance = _Allowance(len(data))
        found = entries(read_pickle(data))
        return {text_of(name): _stored_index(node, allowance) for name, node in found}


class _Allowance:
    """As much as the pickle has bytes: it may refer to one part, which is copied, many times."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise refused("values share their row groups")


def _stored_index(node: Any, allowance: _Allowance) -> StoredIndex:
    made = expect(node, "index", *_KINDS)
    state = attributes(made)
    content = state["_index_data"]
    row_groups: dict[Any, set[int]] | set[int]
    if made.name.endswith("SingleFieldIndexer"):
        row_groups = {}
        for key, numbers in entries(content):
            # The last argument of a scalar is its content.
            allowance.take(1 + (len(key.arguments[-1]) if isinstance(key, StandIn) else 0))
            row_groups[scalar(key)] = _row_groups(numbers, allowance)
    else:
        row_groups = _row_groups(content, allowance)
    name, column = text_of(state["_index_name"]), text_of(state["_column_name"])
    return StoredIndex(made.name.rpartition(".")[2], name, column, row_groups)


def _row_groups(node: Any, allowance: _Allowance) -> set[int]:
    if isinstance(node, StandIn):  # of `set` with a list, before protocol 4
        (node,) = expect(node, "set", "builtins.set").arguments
    allowance.take(len(node))
    if not all(type(number) is int for number in node):
        raise refused("a row group has no number")
    return set(node)


def dump_indexes(indexes: Mapping[str, StoredIndex]) -> bytes:
    """Return the value of the metadata key ``dataset-toolkit.rowgroups_index.v1``.

    Numbers and strings are written as those of Python, to which NumPy's scalars are equal.

    Parameters
    ----------
    indexes : mapping of str to StoredIndex
        The indexes by name.

    Raises
    ------
    InvalidArgumentError
        If a field has values that cannot be kept.
    """
    found = items((text(name), _index(index)) for name, index in indexes.items())
    return b"\x80\x03}" + found + b"."


def _index(index: StoredIndex) -> bytes:
    groups = index.row_groups
    data = _values(groups, index.column_name) if isinstance(groups, dict) else _numbers(groups)
    state = [
        ("_index_name", text(index.index_name)),
        ("_column_name", text(index.column_name)),
        ("_index_data", data),
    ]
    return instance(_INDEXERS, index.kind, state)


def _values(groups: Mapping[Any, Iterable[int]], field: str) -> bytes:
    """Push a defaultdict, which Petastorm asks for values that it does not hold."""
    empty = called(imported("collections", "defaultdict"), _SET)
    return empty + items((_value(value, field), _numbers(n)) for value, n in groups.items())


def _numbers(numbers: Iterable[int]) -> bytes:
    return called(_SET, list_of(map(integer, sorted(numbers))))


def _value(value: Any, field: str) -> bytes:
    if isinstance(value, np.datetime64):
        return _time(value)
    if isinstance(value, np.generic) and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return binary(value)
    if isinstance(value, Decimal):
        return called(imported("decimal", "Decimal"), text(str(value)))
    raise InvalidArgumentError(
        f"field {field!r} holds values of type {type(value).__name__}, which cannot be indexed"
    )


def _time(value: np.datetime64) -> bytes:
    unit, count = np.datetime_data(value)
    one = integer(1)
    metadata = tuple_of([b"}", tuple_of([binary(unit.encode("ascii")), integer(count), one, one])])
    size_and_flags = [integer(-1), integer(-1), integer(0)]
    state = tuple_of([integer(4), text("<"), b"N", b"N", b"N", *size_and_flags, metadata])
    dtype = called(_DTYPE, text("M8"), boolean(False), boolean(True)) + state + b"b"
    return called(_SCALAR, dtype, binary(value.astype("<i8").tobytes()))
