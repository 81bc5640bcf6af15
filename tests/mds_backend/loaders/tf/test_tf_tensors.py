from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from mdstorm_backend.errors import NullValueError
from mdstorm_backend.loaders.tf.tf_specs import ColumnSpec
from mdstorm_backend.loaders.tf.tf_tensors import to_tf


def test_values_have_the_declared_dtype() -> None:
    found = to_tf(np.array([1, 2], np.int16), ColumnSpec("a", "float32"))
    assert found.dtype == np.float32
    assert to_tf(pa.array([1, 2]), ColumnSpec("a", "int8")).dtype == np.int8
    assert to_tf(np.array([True]), ColumnSpec("a", "bool")).tolist() == [True]


def test_dates_and_timestamps_are_nanoseconds() -> None:
    spec = ColumnSpec("a", "int64")
    assert to_tf(np.array(["1970-01-02"], "M8[D]"), spec).tolist() == [86_400_000_000_000]
    assert to_tf(np.array([5], "M8[us]"), spec).tolist() == [5000]
    for unit, remedy in (("us", "timestamp .* by unix_micros"), ("D", "date .* by unix_date")):
        with pytest.raises(OverflowError, match=f"column 'a' holds the {remedy}"):
            to_tf(np.array(["3000-01-01"], f"M8[{unit}]"), spec)


@pytest.mark.parametrize(
    "values",
    [pa.array(["é", ""]), pa.array(["é".encode(), b""]), np.array(["é".encode(), b""], object)],
)
def test_strings_are_bytes(values: Any) -> None:
    found = to_tf(values, ColumnSpec("a", "string"))
    assert tf.constant(found).numpy().tolist() == ["é".encode(), b""]


def test_lists_are_ragged_or_a_matrix() -> None:
    ragged = to_tf(pa.array([[1], [], [2, 3]]), ColumnSpec("a", "int64", ragged=True))
    assert ragged.to_list() == [[1], [], [2, 3]]
    assert to_tf(pa.array([[1, 2], [3, 4]]), ColumnSpec("a", "int64", (2,))).tolist() == [
        [1, 2],
        [3, 4],
    ]
    words = to_tf(pa.array([["a"], [], ["b", "c"]]), ColumnSpec("a", "string", ragged=True))
    assert words.to_list() == [[b"a"], [], [b"b", b"c"]]


def test_a_slice_of_lists_is_converted_alone() -> None:
    lists = pa.array([[1], [2, 3], [4]]).slice(1)
    assert to_tf(lists, ColumnSpec("a", "int64", ragged=True)).to_list() == [[2, 3], [4]]


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        (pa.array([1, None]), ColumnSpec("a", "int64")),
        (pa.array(["x", None]), ColumnSpec("a", "string")),
        (pa.array([[1], None]), ColumnSpec("a", "int64", ragged=True)),
        (pa.array([[1], [None]]), ColumnSpec("a", "int64", ragged=True)),
        (pa.array([["x"], [None]]), ColumnSpec("a", "string", ragged=True)),
        (np.array([1.0, np.nan]), ColumnSpec("a", "int32")),
        (np.array([1, "NaT"], "M8[us]"), ColumnSpec("a", "int64")),
    ],
    ids=str,
)
def test_nulls_that_a_transform_left_are_refused(values: Any, spec: ColumnSpec) -> None:
    with pytest.raises(NullValueError, match="'a' holds 1 null"):
        to_tf(values, spec)
