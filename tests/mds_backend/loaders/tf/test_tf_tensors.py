from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend.errors import NullValueError
from mdstorm_backend.loaders.tf.tf_specs import ColumnSpec
from mdstorm_backend.loaders.tf.tf_tensors import to_tf


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
