"""Collate Python objects as PyTorch does, unless that would lose or change values.

PyTorch's ``default_collate`` keeps only the keys of the first object, and converts numbers of
several types to one type. Objects that are not alike therefore remain a list.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from copy import copy
from typing import Any

from torch.utils.data import default_collate

_CONTAINERS = (Mapping, list, tuple)


def are_alike(objects: Sequence[Any]) -> bool:
    """Whether all objects have the same keys, lengths, types, dtypes and shapes, at any depth."""
    if not objects:
        return True
    first = objects[0]
    if isinstance(first, _CONTAINERS):
        columns = _columns(objects)
        return columns is not None and all(map(are_alike, columns.values()))
    if len(set(map(type, objects))) > 1:
        return False
    return not hasattr(first, "shape") or all(
        (each.dtype, each.shape) == (first.dtype, first.shape) for each in objects
    )


def collate_objects(objects: list[Any]) -> Any:
    """Return the objects collated by PyTorch's rules, or as a list if they differ.

    They also remain a list if PyTorch cannot collate them, as for dates or None.
    """
    if not objects or not are_alike(objects):
        return list(objects)
    try:
        return default_collate(objects)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return list(objects)


def collate_samples(samples: list[Any]) -> Any:
    """Return a batch like ``default_collate``, except that nested values go to `collate_objects`.

    Nested values are the dicts, lists and tuples in a sample, such as JSON. Samples with different
    keys remain a list.
    """
    first = samples[0]
    if not isinstance(first, _CONTAINERS):
        return default_collate(samples)
    columns = _columns(samples)
    if columns is None:
        return samples
    values = {key: _collate_values(values) for key, values in columns.items()}
    if isinstance(first, MutableMapping):
        batch = copy(first)  # keeps the type and attributes, as PyTorch does
        batch.update(values)
        return batch
    if isinstance(first, Mapping):
        return values
    return type(first)(*values.values()) if hasattr(first, "_fields") else list(values.values())


def _columns(objects: Sequence[Any]) -> dict[Any, list[Any]] | None:
    """Return the values of each key or position; None if types, keys or lengths differ."""
    if len(set(map(type, objects))) > 1:
        return None
    keys = [each.keys() if isinstance(each, Mapping) else range(len(each)) for each in objects]
    if any(each != keys[0] for each in keys):
        return None
    return {key: [each[key] for each in objects] for key in keys[0]}


def _collate_values(values: list[Any]) -> Any:
    is_nested = isinstance(values[0], _CONTAINERS)
    return collate_objects(values) if is_nested else default_collate(values)
