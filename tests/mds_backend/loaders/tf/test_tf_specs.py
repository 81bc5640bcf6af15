from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tests.mds_backend.small_datasets import array_of, map_of, plan, struct_of

from mdstorm_backend.errors import NullValueError, UnsupportedTypeError
from mdstorm_backend.format import Column, SparkType
from mdstorm_backend.loaders.nulls import refuse_nulls
from mdstorm_backend.loaders.tf import ColumnSpec, spec_of_column, to_tf
from mdstorm_backend.loaders.tf.tf_specs import needs_value


def stored(spark_type: SparkType, **changes: Any) -> Column:
    column = plan({"a": spark_type})["a"]
    return Column(column.name, column.encoding, column.spark_type, **changes)


def test_arrays_of_one_length_have_a_static_shape_and_others_are_ragged() -> None:
    one_length = spec_of_column(stored(array_of("short"), length=3))
    assert one_length == ColumnSpec("a", "int16", (3,))
    assert one_length.signature == tf.TensorSpec((None, 3), tf.int16)
    ragged = spec_of_column(stored(array_of("string")))
    assert ragged == ColumnSpec("a", "string", ragged=True)
    assert ragged.signature == tf.RaggedTensorSpec((None, None), tf.string, 1, tf.int64)


@pytest.mark.parametrize(
    "spark_type",
    [struct_of(x="long"), map_of("string", "long"), array_of(struct_of(x="long"))],
    ids=str,
)
def test_nested_columns_have_no_counterpart(spark_type: SparkType) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"'a' of type .* has no counterpart") as e:
        spec_of_column(stored(spark_type))
    assert list(e.value.columns) == ["a"]
    assert "schema_fields=[…]" in str(e.value)
    assert isinstance(e.value, TypeError)


@pytest.mark.parametrize(
    ("column", "refused"),
    [
        (stored("long", null_count=2), True),
        (stored("boolean", null_count=2), True),
        (stored("string", null_count=2), True),
        (stored("timestamp", null_count=2), True),
        (stored("float", null_count=2), False),
        (stored(array_of("float"), element_null_count=2), False),
        (stored(array_of("float"), null_count=2), True),
        (stored(array_of("long"), element_null_count=2), True),
        (stored("long"), False),
    ],
)
def test_only_floats_may_be_null(column: Column, refused: bool) -> None:
    if not refused:
        refuse_nulls([column], "TensorFlow", needs_value)
        return
    with pytest.raises(NullValueError, match="column 'a' holds 2 nulls, and TensorFlow") as caught:
        refuse_nulls([column], "TensorFlow", needs_value)
    assert (caught.value.column, caught.value.null_count) == ("a", 2)


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
