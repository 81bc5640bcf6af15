"""Load schemas and row group indexes from the pickles in Petastorm's metadata.

Petastorm loads them with `pickle`. Here they are read as data: `pickle_parser` returns what they
describe, and this module builds schemas and indexes from it. It reads all pickle protocols, and the
forms of all versions of Petastorm, including those when it was called dataset_toolkit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdstorm._pickles.nodes import Call, Global, Mapping, Sequence
from mdstorm._pickles.pickle_parser import read_pickle
from mdstorm._pickles.types import (
    ALLOWED,
    attributes,
    class_and_values,
    numpy_type,
    refused,
    renamed,
    scalar,
    spark_type,
)
from mdstorm._schema.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    DataframeColumnCodec,
    NdarrayCodec,
    ScalarCodec,
)
from mdstorm._schema.unischema import Unischema
from mdstorm._schema.unischema_field import UnischemaField

_UNISCHEMA = Global("petastorm.unischema", "Unischema")
_FIELD = Global("petastorm.unischema", "UnischemaField")
_CODECS = "petastorm.codecs"
_INDEXERS = "petastorm.etl.rowgroup_indexers"
_ORDERED_DICT = Global("collections", "OrderedDict")
_DEFAULT_DICT = Global("collections", "defaultdict")


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


def load_unischema(data: bytes) -> Unischema:
    """Return the schema in a pickle, without running anything in it.

    Parameters
    ----------
    data : bytes
        Value of the metadata key ``dataset-toolkit.unischema.v1``.

    Raises
    ------
    UnsafePickleError
        If it is anything but the pickle of a Unischema with Petastorm's codecs; also
        `pickle.UnpicklingError`.
    """
    node = read_pickle(data, _is_allowed)
    class_, _ = class_and_values(node)
    state = attributes(node)
    if class_ != _UNISCHEMA or not isinstance(state.get("_name"), str):
        raise refused(f"{class_} is the schema")
    fields = [_field(value) for _, value in _entries(state.get("_fields"))]
    return Unischema(state["_name"], fields)


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
    node = read_pickle(data, _is_allowed)
    numbers = _Numbers(len(data))
    return {_text(key): _index(value, numbers) for key, value in _entries(node)}


def _is_allowed(found: Global) -> bool:
    name = renamed(found)
    return name.name in ALLOWED.get(name.module, ())


def _entries(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values of a dict, an OrderedDict or a defaultdict."""
    if isinstance(node, Mapping):
        yield from node.items
        return
    class_, values = class_and_values(node)
    if class_ not in (_ORDERED_DICT, _DEFAULT_DICT):
        raise refused(f"{class_} is a dict")
    if class_ == _ORDERED_DICT and values:  # as Python 2 writes it
        for pair in _items(values[0]):
            key, value = _pair(pair)
            yield key, value
    yield from node.items


def _items(node: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(node, Call):  # of `set` with a list, before protocol 4
        class_, values = class_and_values(node)
        if class_ != Global("builtins", "set") or len(values) != 1:
            raise refused(f"{class_} is a list")
        node = values[0]
    if isinstance(node, Sequence):
        return node.items
    if not isinstance(node, tuple):
        raise refused(f"{type(node).__name__} is a list")
    return node


def _pair(node: Any) -> tuple[Any, Any]:
    values = _items(node)
    if len(values) != 2:
        raise refused("an entry is not a pair")
    return values[0], values[1]


def _field(node: Any) -> UnischemaField:
    class_, values = class_and_values(node)
    if class_ != _FIELD or len(values) != len(UnischemaField._fields):
        raise refused(f"{class_} is a field")
    name, dtype, shape, codec, nullable = values
    if not isinstance(shape, tuple) or not all(
        size is None or (type(size) is int and size >= 0) for size in shape
    ):
        raise refused("a field has no shape")
    return UnischemaField(
        _text(name),
        numpy_type(dtype),
        shape,
        None if codec is None else _codec(codec),
        bool(nullable),
    )


def _codec(node: Any) -> DataframeColumnCodec:
    class_, values = class_and_values(node)
    if class_.module != _CODECS or values:
        raise refused(f"{class_} is a codec")
    state = attributes(node)
    if class_.name == "ScalarCodec":
        return ScalarCodec(spark_type(state.get("_spark_type")))
    if class_.name == "CompressedImageCodec":
        quality = state.get("_quality", 80)
        if type(quality) is not int:
            raise refused("an image has no quality")
        return CompressedImageCodec(_text(state.get("_image_codec")), quality)
    return CompressedNdarrayCodec() if class_.name == "CompressedNdarrayCodec" else NdarrayCodec()


class _Numbers:
    """Makes sets of numbers, with no more numbers in total than the pickle has bytes.

    A pickle may refer to one list many times, and each reference would become a set of its own.
    """

    def __init__(self, most: int) -> None:
        self._left = most

    def __call__(self, node: Any) -> set[int]:
        numbers = _items(node)
        self._left -= len(numbers)
        if self._left < 0:
            raise refused("values share their row groups")
        if not all(type(number) is int for number in numbers):
            raise refused("a row group has no number")
        return set(numbers)


def _index(node: Any, numbers: _Numbers) -> StoredIndex:
    class_, _ = class_and_values(node)
    if class_.module != _INDEXERS:
        raise refused(f"{class_} is an index")
    state = attributes(node)
    content = state.get("_index_data")
    row_groups: dict[Any, set[int]] | set[int]
    if class_.name == "SingleFieldIndexer":
        row_groups = {scalar(key): numbers(value) for key, value in _entries(content)}
    else:
        row_groups = numbers(content)
    name, column = _text(state.get("_index_name")), _text(state.get("_column_name"))
    return StoredIndex(class_.name, name, column, row_groups)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise refused("a name is not a string")
    return value
