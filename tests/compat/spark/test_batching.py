"""Batches and epochs, which are the same in both frameworks."""

from itertools import chain
from typing import Any

import pytest
from tests.compat.spark.converters import IN_ORDER, Read, with_either, with_tf, with_torch

from mdstorm import TransformSpec
from mdstorm.errors import InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter


def numbers(batches: list[dict[str, Any]]) -> list[list[int]]:
    return [batch["number"] for batch in batches]


@with_either
@pytest.mark.parametrize(
    ("num_epochs", "expected"),
    [
        (1, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
        (2, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9]]),
    ],
)
def test_batches_span_epochs(
    ten: SparkDatasetConverter, read: Read, num_epochs: int, expected: list[list[int]]
) -> None:
    batches = read(ten, batch_size=4, num_epochs=num_epochs, shuffle_row_groups=False)
    assert numbers(batches) == expected


@with_either
def test_epochs_never_end_by_default(ten: SparkDatasetConverter, read: Read) -> None:
    batches = numbers(read(ten, batch_size=4, shuffle_row_groups=False, take=1000))
    assert len(batches) == 1000
    assert list(chain(*batches)) == [i % 10 for i in range(4000)]


@with_either
def test_a_batch_has_32_rows_by_default(ten: SparkDatasetConverter, read: Read) -> None:
    batches = numbers(read(ten, num_epochs=5))
    assert [len(batch) for batch in batches] == [32, 18]


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


@pytest.mark.parametrize("batch_size", [None, 0, -1])
def test_one_batch_of_everything_needs_an_end(
    ten: SparkDatasetConverter, batch_size: int | None
) -> None:
    with pytest.raises(InvalidArgumentError, match="num_epochs=None never ends"):
        ten.make_torch_dataloader(batch_size=batch_size)


@with_either
@pytest.mark.parametrize("batch_size", [2.5, "4", True], ids=str)
def test_batch_sizes_are_whole_numbers(
    ten: SparkDatasetConverter, read: Read, batch_size: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="batch_size must be"):
        read(ten, batch_size=batch_size, num_epochs=1)


def test_tensorflow_refuses_negative_batch_sizes(ten: SparkDatasetConverter) -> None:
    with pytest.raises(InvalidArgumentError, match="found -1"):
        ten.make_tf_dataset(batch_size=-1)


@with_either
@pytest.mark.parametrize("num_epochs", [0, -1, 1.5, "2", True], ids=str)
def test_a_wrong_number_of_epochs_is_refused(
    ten: SparkDatasetConverter, read: Read, num_epochs: Any
) -> None:
    with pytest.raises(ValueError, match="iterations must be positive integer or None"):
        read(ten, num_epochs=num_epochs)


@with_either
@pytest.mark.parametrize("batch_size", [1, 3, 10, 11, 100_000])
def test_every_row_comes_once_an_epoch(
    ten: SparkDatasetConverter, read: Read, batch_size: int
) -> None:
    batches = numbers(read(ten, batch_size=batch_size, **IN_ORDER))
    assert list(chain(*batches)) == list(range(10))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
class TestIteratingAgain:
    """One loader, several passes."""

    def loader(self, ten: SparkDatasetConverter, make: str, **arguments: Any) -> Any:
        return getattr(ten, make)(batch_size=4, **{**IN_ORDER, **arguments})

    def rows(self, batch: Any) -> list[int]:
        column = batch["number"] if isinstance(batch, dict) else batch.number.numpy()
        return column.tolist()  # type: ignore[no-any-return]

    def test_each_pass_is_complete(self, ten: SparkDatasetConverter, make: str) -> None:
        with self.loader(ten, make) as loader:
            passes = [[self.rows(batch) for batch in loader] for _ in range(3)]
        assert passes == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]] * 3

    def test_a_pass_that_was_left_early_does_not_shorten_the_next(
        self, ten: SparkDatasetConverter, make: str
    ) -> None:
        with self.loader(ten, make) as loader:
            for batch in loader:
                assert self.rows(batch) == [0, 1, 2, 3]
                break
            assert list(chain(*map(self.rows, loader))) == list(range(10))

    def test_an_endless_one_can_be_left_and_begun_again(
        self, ten: SparkDatasetConverter, make: str
    ) -> None:
        with self.loader(ten, make, num_epochs=None) as loader:
            for _ in range(3):
                first = next(iter(loader))
                assert self.rows(first) == [0, 1, 2, 3]

    def test_it_works_without_a_context_and_after_one(
        self, ten: SparkDatasetConverter, make: str
    ) -> None:
        loader = self.loader(ten, make)
        expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert [self.rows(batch) for batch in loader] == expected
        for _ in range(2):
            with loader as entered:
                assert [self.rows(batch) for batch in entered] == expected
        assert [self.rows(batch) for batch in loader] == expected

    def test_two_of_one_converter_are_independent(
        self, ten: SparkDatasetConverter, make: str
    ) -> None:
        with self.loader(ten, make) as one, self.loader(ten, make) as other:
            pairs = [(self.rows(a), self.rows(b)) for a, b in zip(one, other, strict=True)]
        assert len(pairs) == 3
        assert all(a == b for a, b in pairs)
