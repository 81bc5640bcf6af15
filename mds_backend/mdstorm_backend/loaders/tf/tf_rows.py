"""Namedtuple types of TensorFlow's batches and rows, built without a tree walk."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tensorflow as tf

from mdstorm_backend.errors import InvalidArgumentError


@lru_cache(maxsize=256)
def row_type(type_name: str, names: tuple[str, ...]) -> Any:
    """Return the namedtuple type of some columns; equal columns share one type.

    Raises
    ------
    InvalidArgumentError
        If a column name is no valid field name, in Python's words.
    """
    try:
        base = collections.namedtuple(type_name, names)  # type: ignore[misc]
    except ValueError as error:
        raise InvalidArgumentError(
            f"{error}: batches are namedtuples here, so columns need names that Python takes for "
            f"fields. Rename them before converting, df.toDF(…), or read others of {list(names)} "
            "with schema_fields"
        ) from error
    return type(type_name, (base,), {"__slots__": (), "_from_compatible_tensor_list": made_of})


def made_of(types: Any, tensors: Sequence[Any]) -> Any:
    """Return the row of some tensors, where `types` is the row of their types.

    TensorFlow's iterators ask what describes their elements for ``_from_compatible_tensor_list``
    first. Otherwise they walk through the structure, which takes longer than getting the tensors.

    Raises
    ------
    AttributeError
        If not all are plain tensors; then TensorFlow does walk through it.
    """
    if any(type(one) is not tf.TensorSpec for one in types):
        raise AttributeError(f"{type(types).__name__} has parts that are made of several tensors")
    return types._make(tensors)
