"""Arrays that do not fit into the tensor that TensorFlow was promised."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from tests.compat.spark.converters import IN_ORDER, with_tf
from tests.compat.spark.test_transform_values import BATCH, plain, torch_x, two_shards
from tests.mds_backend.small_datasets import array_of

from mdstorm import TransformSpec


def test_arrays_of_one_length_made_ragged(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1, 2]] * 4, array_of("long"))

    def cut(frame: pd.DataFrame) -> pd.DataFrame:
        frame["x"] = [cell[: 1 + i] for i, cell in enumerate(frame["x"])]
        return frame

    message = r"column 'x' .*shape \(2,\).* lengths from 1 to 2.*edit_fields, and pad"
    with pytest.raises(tf.errors.OpError, match=message):
        with_tf(converter, transform_spec=TransformSpec(cut), **BATCH)
    declared = TransformSpec(cut, [("x", np.int64, (None,), False)])
    with pytest.raises(tf.errors.OpError, match=r"column 'x'.*lengths from 1 to 2.* pad"):
        with_tf(converter, transform_spec=declared, **BATCH)
    assert plain(torch_x(converter, declared)) == [[1], [1, 2], [1], [1, 2]]


def test_a_free_length_may_differ_between_batches(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1], [2], [3, 4], [5, 6]], array_of("long"))
    spec = TransformSpec(edit_fields=[("x", np.int64, (None,), False)])
    batches = with_tf(converter, transform_spec=spec, batch_size=2, **IN_ORDER)
    assert [batch["x"] for batch in batches] == [[[1], [2]], [[3, 4], [5, 6]]]


@pytest.mark.parametrize(
    ("stored", "type_", "returned"),
    [
        ([[1, 2]] * 4, array_of("long"), [1, 2]),
        ([1, 2, 3, 4], "long", [[1, 2]] * 2),
        ([[1, 2]] * 4, array_of("long"), [[1, 2, 3]] * 2),
    ],
    ids=["scalars", "arrays", "length"],
)
def test_other_shapes_than_stored(
    tmp_path: Path, stored: list[Any], type_: Any, returned: list[Any]
) -> None:
    converter = two_shards(tmp_path, stored, type_)
    spec = TransformSpec(lambda frame: frame.assign(x=returned))
    with pytest.raises(tf.errors.OpError, match=r"column 'x' .* declare its shape in edit_"):
        with_tf(converter, transform_spec=spec, **BATCH)


@pytest.mark.parametrize("dtype", [np.str_, np.int64], ids=["numbers", "text"])
def test_other_types_than_declared(tmp_path: Path, dtype: Any) -> None:
    converter = two_shards(tmp_path, [1, 2, 3, 4], "long")
    x = 1 if dtype is np.str_ else "a"
    spec = TransformSpec(lambda frame: frame.assign(x=x), [("x", dtype, (), False)])
    with pytest.raises(tf.errors.OpError, match=r"column 'x' .* declare its NumPy type"):
        with_tf(converter, transform_spec=spec, **BATCH)


def test_ragged_arrays_of_one_length(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1], [2, 3], [4], []], array_of("long"))
    spec = TransformSpec(lambda frame: frame.assign(x=[np.arange(2)] * 2))
    (batch,) = with_tf(converter, transform_spec=spec, **BATCH)
    assert batch["x"] == [[0, 1]] * 4


def test_a_function_that_pads_need_not_declare_it_for_pytorch(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1], [2, 3], [], [4, 5, 6]], array_of("long"))

    def pad(frame: pd.DataFrame) -> pd.DataFrame:
        frame["x"] = [np.pad(cell, (0, 3 - len(cell))) for cell in frame["x"]]
        return frame

    with converter.make_torch_dataloader(
        batch_size=3, transform_spec=TransformSpec(pad), **IN_ORDER
    ) as loader:
        batches = [batch["x"].tolist() for batch in loader]
    assert batches == [[[1, 0, 0], [2, 3, 0], [0, 0, 0]], [[4, 5, 6]]]
