"""Types of rows, and rows that TensorFlow makes without a walk through their structure."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.data.util import structure

from mdstorm.unischema import row_type as reader_row_type
from mdstorm_backend.loaders.tf.tf_specs import row_type

Make = Callable[[str, tuple[str, ...]], Any]

of_both = pytest.mark.parametrize("make", [row_type, reader_row_type], ids=["batch", "reader"])


@of_both
def test_equal_columns_share_a_type(make: Make) -> None:
    assert make("Batch", ("a", "b")) is make("Batch", ("a", "b"))
    assert make("Batch", ("a", "b"))._fields == ("a", "b")
    assert make("Batch", ("a", "b")) is not make("Other", ("a", "b"))


@of_both
def test_a_name_that_is_no_field_name_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="valid identifiers"):
        make("Batch", ("a b",))


@of_both
def test_tensors_become_rows_without_a_walk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    row = make("Batch", ("a", "b"))
    dataset = tf.data.Dataset.from_tensor_slices(row([1, 2, 3], [4.0, 5.0, 6.0])).batch(2)
    monkeypatch.setattr(structure, "from_compatible_tensor_list", None)
    first, last = dataset
    assert type(first) is row
    assert (first.a.numpy().tolist(), first.b.numpy().tolist()) == ([1, 2], [4.0, 5.0])
    assert last.a.shape == (1,)


@of_both
def test_what_a_user_makes_of_rows_is_what_it_is_elsewhere(make: Make) -> None:
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


@of_both
def test_functions_and_graphs_take_rows(make: Make) -> None:
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
