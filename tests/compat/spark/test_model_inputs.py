import pickle
from typing import Any

import pytest

from mdstorm._spark.converter_files import ModelInputs
from mdstorm.errors import InvalidArgumentError

BATCH = {"a": 1, "b": 2, "y": 3, "w": 4}


@pytest.mark.parametrize(
    ("inputs", "taken"),
    [
        ({}, BATCH),
        ({"features": "a"}, 1),
        ({"features": ["a"]}, {"a": 1}),
        ({"features": "a", "labels": "y"}, (1, 3)),
        ({"features": ["b", "a"], "labels": ["y"]}, ({"b": 2, "a": 1}, {"y": 3})),
        ({"features": "a", "labels": "a"}, (1, 1)),
        ({"labels": "y"}, ({"a": 1, "b": 2, "w": 4}, 3)),
        ({"labels": "y", "sample_weights": "w"}, ({"a": 1, "b": 2}, 3, 4)),
        ({"features": "a", "labels": ("y",), "sample_weights": "w"}, (1, {"y": 3}, 4)),
    ],
)
def test_a_name_gives_a_tensor_and_names_give_a_dict(inputs: dict[str, Any], taken: Any) -> None:
    made = ModelInputs(**inputs)
    assert made(BATCH) == taken
    assert pickle.loads(pickle.dumps(made))(BATCH) == taken  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"features": ["a", "label"]}, "features names 'label', but batches have"),
        ({"labels": "yy"}, "labels names 'yy', .* did you mean y"),
        ({"labels": ["a", "b", "y", "w"]}, "no column is left for the features"),
    ],
)
def test_columns_that_a_batch_does_not_have_are_refused_by_name(
    inputs: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        ModelInputs(**inputs).columns(BATCH)
