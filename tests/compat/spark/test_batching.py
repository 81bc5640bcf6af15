"""Batches and epochs, which are the same in both frameworks."""

from itertools import chain
from typing import Any

import pytest
from tests.compat.spark.converters import IN_ORDER, Read, numbers, with_either, with_tf, with_torch

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter


@with_either
def test_epochs_never_end_by_default(ten: SparkDatasetConverter, read: Read) -> None:
    batches = numbers(read(ten, batch_size=4, shuffle_row_groups=False, take=1000))
    assert len(batches) == 1000
    assert list(chain(*batches)) == [i % 10 for i in range(4000)]


@pytest.mark.parametrize("batch_size", [None, 0])
def test_tensorflow_takes_no_batch_size_for_the_default(
    ten: SparkDatasetConverter, batch_size: int | None
) -> None:
    batches = numbers(with_tf(ten, batch_size=batch_size, num_epochs=5))
    assert [len(batch) for batch in batches] == [32, 18]


@pytest.mark.parametrize("batch_size", [None, 0, -1])
def test_pytorch_takes_no_batch_size_for_one_batch_of_everything(
    ten: SparkDatasetConverter, batch_size: int | None
) -> None:
    batches = with_torch(ten, batch_size=batch_size, num_epochs=2, shuffle_row_groups=False)
    assert numbers(batches) == [[*range(10), *range(10)]]


def test_one_batch_of_everything_holds_what_a_transform_makes(ten: SparkDatasetConverter) -> None:
    thrice = TransformSpec(lambda frame: frame.loc[frame.index.repeat(3)])
    (batch,) = with_torch(ten, batch_size=None, num_epochs=2, transform_spec=thrice)
    assert len(batch["number"]) == 60


def rows(batches: Any) -> list[list[int]]:
    columns = [b["number"] if isinstance(b, dict) else b.number.numpy() for b in batches]
    return [column.tolist() for column in columns]


@pytest.mark.parametrize(
    ("make", "arguments"),
    [("make_torch_dataloader", (5, 1, 2, 0, None)), ("make_tf_dataset", (5, 1, 1, 2, 0))],
)
def test_positional_arguments_are_those_of_petastorm(
    ten: SparkDatasetConverter, make: str, arguments: Any
) -> None:
    loader = getattr(ten, make)(*arguments, shuffle_row_groups=False)
    assert rows(loader) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
def test_each_pass_is_complete_without_a_context_and_after_one(
    ten: SparkDatasetConverter, make: str
) -> None:
    loader = getattr(ten, make)(batch_size=4, **IN_ORDER)
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rows(loader) == expected
    for _ in range(2):
        with loader as entered:
            assert rows(entered) == expected
    assert rows(loader) == expected
