from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.python.data.util import structure
from tests.kit.small_datasets import array_of, map_of, plan, struct_of

from mdstorm.unischema import row_type as reader_row_type
from mdstorm_backend.errors import NullValueError, UnsupportedTypeError
from mdstorm_backend.format import Column, SparkType
from mdstorm_backend.loaders.nulls import check_nulls
from mdstorm_backend.loaders.tf import ColumnSpec, spec_of_column, to_tf
from mdstorm_backend.loaders.tf.tf_columns import needs_value, row_type


def stored(spark_type: SparkType, **changes: Any) -> Column:
    column = plan({"a": spark_type})["a"]
    return Column(column.name, column.encoding, column.spark_type, **changes)


def test_arrays_of_equal_length_have_a_static_shape_and_others_are_ragged() -> None:
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
def test_nested_columns_raise_error_in_tensorflow(spark_type: SparkType) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"'a' of type .* has no counterpart") as e:
        spec_of_column(stored(spark_type))
    assert list(e.value.columns) == ["a"]
    assert "schema_fields=[…]" in str(e.value)
    assert isinstance(e.value, TypeError)


NULLS, ELEMENTS = {"null_count": 2}, {"element_null_count": 2}


@pytest.mark.parametrize(
    ("spark_type", "nulls"),
    [
        *((type_, NULLS) for type_ in ("long", "boolean", "string", "timestamp")),
        (array_of("float"), NULLS),
        (array_of("long"), ELEMENTS),
    ],
    ids=str,
)
def test_nulls_without_a_tensorflow_value_raise_error_except_in_floats(
    spark_type: SparkType, nulls: dict[str, int]
) -> None:
    floats = [stored("float", **NULLS), stored(array_of("float"), **ELEMENTS)]
    check_nulls([stored("long"), *floats], "TensorFlow", needs_value)
    with pytest.raises(NullValueError, match="column 'a' holds 2 nulls, and TensorFlow") as caught:
        check_nulls([stored(spark_type, **nulls)], "TensorFlow", needs_value)
    assert (caught.value.column, caught.value.null_count) == ("a", 2)


@pytest.mark.parametrize(
    ("spark_type", "dtype"),
    [("timestamp", "int64"), ("timestamp_ntz", "int64"), ("date", "int64"), ("string", "string")],
)
def test_times_and_dates_become_int64_and_strings_stay_strings_in_tensorflow(
    spark_type: SparkType, dtype: str
) -> None:
    assert spec_of_column(stored(spark_type)) == ColumnSpec("a", dtype)


def test_sliced_list_column_is_converted_without_the_other_rows() -> None:
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
def test_nulls_remaining_after_a_transform_raise_error(values: Any, spec: ColumnSpec) -> None:
    with pytest.raises(NullValueError, match="'a' holds 1 null"):
        to_tf(values, spec)


def png(height: int, width: int, mode: str = "RGB") -> bytes:
    file = BytesIO()
    Image.new(mode, (width, height), 7).save(file, "png")
    return file.getvalue()


def test_images_are_decoded_and_stacked_if_their_shapes_are_equal() -> None:
    spec = spec_of_column(Column("a", "png"))
    files = pa.array([png(2, 3), png(2, 3)], pa.binary())
    (pixels, arrays) = to_tf(files, spec), to_tf(np.full((2, 2, 3, 3), 7, np.uint8), spec)
    assert pixels.shape == arrays.shape == (2, 2, 3, 3)
    assert pixels[..., 0].tolist() == arrays[..., 0].tolist()
    for others in ([png(2, 3), png(3, 2)], [png(2, 3, "I;16"), png(2, 3, "I;16")]):
        with pytest.raises(UnsupportedTypeError, match="images of different shapes in one batch"):
            to_tf(pa.array(others, pa.binary()), spec)
    with pytest.raises(NullValueError, match="'a' holds 1 null"):
        to_tf(pa.array([png(2, 3), None], pa.binary()), spec)


@pytest.fixture(params=[row_type, reader_row_type], ids=["batch", "reader"])
def make(request: Any) -> Any:
    return request.param


def test_datasets_with_equal_column_names_share_a_row_type(make: Any) -> None:
    assert make("Batch", ("a", "b")) is make("Batch", ("a", "b"))
    assert make("Batch", ("a", "b"))._fields == ("a", "b")
    assert make("Batch", ("a", "b")) is not make("Other", ("a", "b"))


def test_column_name_that_is_not_an_identifier_raises_error(make: Any) -> None:
    with pytest.raises(ValueError, match="valid identifiers"):
        make("Batch", ("a b",))


def test_tensors_become_rows_without_tensorflows_own_conversion(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = make("Batch", ("a", "b"))
    dataset = tf.data.Dataset.from_tensor_slices(row([1, 2, 3], [4.0, 5.0, 6.0])).batch(2)
    monkeypatch.setattr(structure, "from_compatible_tensor_list", None)
    first, last = dataset
    assert type(first) is row
    assert (first.a.numpy().tolist(), first.b.numpy().tolist()) == ([1, 2], [4.0, 5.0])
    assert last.a.shape == (1,)


def test_rows_keep_their_type_in_ragged_batches_and_nested_structures(make: Any) -> None:
    row = make("Batch", ("a", "b"))
    dataset = tf.data.Dataset.from_tensor_slices(row([1, 2], [[3, 4], [5, 6]]))
    for ragged in dataset.map(lambda each: row(tf.range(each.a), each.b)).ragged_batch(2):
        assert type(ragged) is row
        assert isinstance(ragged.a, tf.RaggedTensor)
        assert ragged.a.to_list() == [[0], [0, 1]]
        assert ragged.b.numpy().tolist() == [[3, 4], [5, 6]]
    for nested in dataset.map(lambda each: {"row": each, "sum": each.a + each.b}):
        assert type(nested["row"]) is row
    for optional in dataset.map(lambda each: row(tf.experimental.Optional.from_value(each.a), 1)):
        assert optional.a.has_value()


def test_tf_functions_and_graphs_accept_rows(make: Any) -> None:
    row = make("Batch", ("a", "b"))
    dataset = tf.data.Dataset.from_tensor_slices(row([1, 2], [3, 4]))

    @tf.function  # type: ignore[untyped-decorator]
    def total() -> Any:
        result = tf.constant(0)
        for each in dataset:
            result += each.a * each.b
        return result

    assert total().numpy() == 11
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        slices = tf.compat.v1.data.Dataset.from_tensor_slices(row([1, 2], [3, 4]))
        following = slices.make_one_shot_iterator().get_next()
        assert type(following) is row
        assert session.run(following) == (1, 3)
