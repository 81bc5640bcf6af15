"""`make_tf_dataset`: what kind of object it returns and how it behaves."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.kit.small_datasets import array_of
from tests.unit.compat.spark.converters import IN_ORDER, converter_of

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter

ROWS = 40


@pytest.fixture
def mixed(tmp_path: Path) -> SparkDatasetConverter:
    """Columns of several types, in non-alphabetical order."""
    columns = {
        "weight": np.arange(ROWS) / 10,
        "flag": [i % 2 == 0 for i in range(ROWS)],
        "pair": [[i, i + 1] for i in range(ROWS)],
        "ragged": [[i] * (i % 3) for i in range(ROWS)],
        "name": [f"n{i}" for i in range(ROWS)],
    }
    fields = {
        "weight": "double",
        "flag": "boolean",
        "pair": array_of("float"),
        "ragged": array_of("integer"),
        "name": "string",
    }
    return converter_of(tmp_path / "mixed", columns, fields, dtype="float32", tasks=2)


def test_tf_dataset_batch_is_namedtuple_in_column_order(
    mixed: SparkDatasetConverter,
) -> None:
    with mixed.make_tf_dataset(batch_size=3, **IN_ORDER) as dataset:
        batch = next(iter(dataset))
    assert type(batch).__name__ == "inferred_schema_view"
    assert batch._fields == ("weight", "flag", "pair", "ragged", "name")
    assert batch.weight.numpy().tolist() == np.array([0, 0.1, 0.2], np.float32).tolist()
    assert batch.flag.numpy().tolist() == [True, False, True]
    assert batch.pair.numpy().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert batch.ragged.to_list() == [[], [1], [2, 2]]
    assert batch.name.numpy().tolist() == [b"n0", b"n1", b"n2"]
    some = mixed.make_tf_dataset(batch_size=3, schema_fields=["flag"], num_epochs=1)
    assert type(next(iter(some))).__name__ == "inferred_schema_view_view"


@pytest.mark.long
def test_prefetch_leaves_batches_unchanged(ten: SparkDatasetConverter) -> None:
    for prefetch in (None, 0, 1, 5):
        with ten.make_tf_dataset(batch_size=4, prefetch=prefetch, **IN_ORDER) as dataset:
            assert [len(batch.number) for batch in dataset] == [4, 4, 2]


def test_features_labels_and_weights_select_columns_in_tf_dataset(
    mixed: SparkDatasetConverter,
) -> None:
    inputs = {"features": ["pair", "flag"], "labels": "weight", "sample_weights": "weight"}
    dataset = mixed.make_tf_dataset(batch_size=3, **inputs, **IN_ORDER)
    x, y, weights = next(iter(dataset))
    assert sorted(x) == ["flag", "pair"]
    assert x["pair"].numpy().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert y.numpy().tolist() == weights.numpy().tolist() == np.array([0, 0.1, 0.2], "f4").tolist()
    x, y = next(iter(mixed.make_tf_dataset(batch_size=3, labels="flag")))
    assert sorted(x) == ["name", "pair", "ragged", "weight"]
    only = next(iter(mixed.make_tf_dataset(batch_size=3, features="name", **IN_ORDER)))
    assert only.numpy().tolist() == [b"n0", b"n1", b"n2"]


def test_features_can_include_transform_columns(mixed: SparkDatasetConverter) -> None:
    def double(frame: Any) -> Any:
        frame["double"] = frame["weight"] * 2
        return frame[["double", "flag"]]

    edited, named = [("double", np.float32, (), False)], {"features": "double", "labels": "flag"}
    spec = TransformSpec(double, edit_fields=edited, selected_fields=["double", "flag"])
    x, y = next(iter(mixed.make_tf_dataset(batch_size=3, transform_spec=spec, **named, **IN_ORDER)))
    assert x.numpy().tolist() == np.array([0, 0.2, 0.4], "f4").tolist()
    assert y.numpy().tolist() == [True, False, True]


def test_nulls_in_columns_that_are_not_features_raise_no_error(tmp_path: Path) -> None:
    columns = {"x": [1.0, 2.0], "y": [0, 1], "text": [None, "a"], "z": [None, 3]}
    fields = {"x": "float", "y": "long", "text": "string", "z": "long"}
    converter = converter_of(tmp_path / "nulls", columns, fields)
    (batch,) = converter.make_tf_dataset(
        num_epochs=1, features=["x", "z_is_null"], labels="y", null_masks=["z"]
    )
    assert batch[0]["z_is_null"].numpy().tolist() == [True, False]


def test_keras_fit_on_features_and_labels_does_not_need_steps_per_epoch(
    mixed: SparkDatasetConverter, recwarn: pytest.WarningsRecorder
) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    arguments = {"batch_size": 7, "num_epochs": 1, "features": "pair"}
    train = mixed.make_tf_dataset(labels="weight", **arguments)
    options = {"validation_data": train, "class_weight": dict.fromkeys(range(5), 1.0)}
    history = model.fit(train, epochs=2, shuffle=False, verbose=0, **options)
    assert history.epoch == [0, 1]
    assert "ran out of data" not in "".join(str(warning.message) for warning in recwarn)
    assert model.predict(mixed.make_tf_dataset(**arguments), verbose=0).shape == (ROWS, 1)


def linear_model() -> Any:
    model = keras.Sequential([keras.Input(()), keras.layers.Reshape((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def recorded(dataset: Any, seen: list[list[float]]) -> Any:
    """Return a dataset with the same batches that appends their features to `seen`."""

    def record(x: Any, y: Any) -> Any:
        (x_again,) = tf.py_function(
            lambda x: [seen.append(x.numpy().tolist()) or x], [x], [tf.float32]
        )
        return tf.ensure_shape(x_again, x.shape), y

    return dataset.map(record)


@pytest.mark.long
def test_repeated_fit_calls_with_few_steps_continue_after_load(
    mixed: SparkDatasetConverter,
) -> None:
    arguments = {"batch_size": 4, "seed": 7, "shuffle_rows": True}
    named = {"features": "weight", "labels": "weight"}
    dataset = mixed.make_tf_dataset(num_epochs=None, **arguments, **named)
    whole = mixed.make_tf_dataset(num_epochs=1, **arguments, **named)
    epochs = [[x.numpy().tolist() for x, _ in whole] for _ in range(3)]
    next(iterator := iter(dataset)), next(iterator), next(iterator)
    dataset.load_state_dict(dataset.state_dict())
    seen: list[list[float]] = []
    model, train = linear_model(), recorded(dataset, seen)
    rounds = []
    for _ in range(3):
        model.fit(train, steps_per_epoch=2, epochs=1, shuffle=False, verbose=0)
        rounds.append(seen[-2:])
    assert rounds == [epochs[0][3:5], epochs[1][:2], epochs[2][:2]]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset")
def test_fit_after_loading_last_batch_state_runs_all_epochs(
    mixed: SparkDatasetConverter,
) -> None:
    def make() -> Any:
        spec = TransformSpec(lambda frame: frame[["weight"]], selected_fields=["weight"])
        return mixed.make_tf_dataset(
            batch_size=10,
            seed=7,
            num_epochs=1,
            features="weight",
            labels="weight",
            transform_spec=spec,
        )

    class Counting(keras.callbacks.Callback):
        def __init__(self, dataset: Any) -> None:
            super().__init__()
            self.dataset, self.steps, self.states = dataset, [], []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.steps.append(0)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps[-1] += 1
            self.states.append(self.dataset.state_dict(batches=batch + 1))

    first, second = Counting(make()), Counting(make())
    linear_model().fit(first.dataset, epochs=1, shuffle=False, verbose=0, callbacks=[first])
    second.dataset.load_state_dict(first.states[3])
    linear_model().fit(second.dataset, epochs=3, shuffle=False, verbose=0, callbacks=[second])
    assert (first.steps, second.steps) == ([4], [4, 4, 4])
