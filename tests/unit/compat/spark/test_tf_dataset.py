"""`make_tf_dataset`: what kind of object it returns and how it behaves."""

from pathlib import Path

import keras
import numpy as np
import pytest
from tests.kit.small_datasets import array_of
from tests.unit.compat.spark.converters import IN_ORDER, converter_of

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


def test_nulls_in_columns_that_are_not_features_raise_no_error(tmp_path: Path) -> None:
    columns = {"x": [1.0, 2.0], "y": [0, 1], "text": [None, "a"], "z": [None, 3]}
    fields = {"x": "float", "y": "long", "text": "string", "z": "long"}
    converter = converter_of(tmp_path / "nulls", columns, fields)
    (batch,) = converter.make_tf_dataset(
        num_epochs=1, features=["x", "z_is_null"], labels="y", null_masks=["z"]
    )
    assert batch[0]["z_is_null"].numpy().tolist() == [True, False]


@pytest.mark.long
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
