"""All ranks use the same seed; with different seeds, they would lose and repeat rows."""

from collections import Counter
from typing import Any

import pytest
from tests.unit.compat.spark.converters import Numbers, with_each_in_either_order

from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import StreamingDataLoader
from mdstorm_backend.order.exact import DEFAULT_SEED

ROWS = 1_000
SHUFFLED = {"num_epochs": 1, "shuffle_rows": True}

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader")


@with_each_in_either_order
@pytest.mark.parametrize(
    "seed", [{}, pytest.param({"seed": 0}, marks=pytest.mark.long)], ids=["none", "0"]
)
def test_ranks_read_each_row_once_with_any_seed(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str, seed: dict[str, Any]
) -> None:
    ranks = [
        numbers(thousand, cur_shard=rank, shard_count=2, order=order, **seed, **SHUFFLED)
        for rank in range(2)
    ]
    assert Counter(ranks[0] + ranks[1]) == Counter(range(ROWS))
    assert ranks[0] != sorted(ranks[0])


@with_each_in_either_order
def test_new_loaders_with_shard_arguments_continue_with_next_epoch_of_default_seed(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    arguments = {**SHUFFLED, "cur_shard": 0, "shard_count": 1, "order": order}
    seeded = {**arguments, "seed": DEFAULT_SEED}
    epochs = numbers(thousand, **{**seeded, "num_epochs": 4})
    assert numbers(thousand, **{**arguments, "num_epochs": 2}) == epochs[: 2 * ROWS]
    assert numbers(thousand, **seeded) == epochs[:ROWS]
    numbers(thousand, **{**arguments, "shuffle_rows": False, "shuffle_row_groups": False})
    assert numbers(thousand, seed=None, **arguments) == epochs[2 * ROWS : 3 * ROWS]
    # In the exact order, 0 means no seed, as in Petastorm. In the elastic order, it is a seed.
    zero = numbers(thousand, seed=0, **arguments)
    assert (zero == epochs[3 * ROWS :]) == (order == "exact")


def test_state_of_single_samples_is_in_the_epoch_that_a_new_loader_begins_with(
    thousand: SparkDatasetConverter,
) -> None:
    begun = []
    for _ in range(2):
        made = thousand.make_torch_dataloader(cur_shard=0, shard_count=1, **SHUFFLED)
        loader = StreamingDataLoader(made.dataset, batch_size=None)
        samples = iter(loader)
        next(samples)
        begun.append(loader.state_dict()["epoch"])
        list(samples)
    assert begun == [0, 1]


@with_each_in_either_order
def test_default_seed_without_shard_arguments_is_random(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    one, other = (numbers(thousand, order=order, **SHUFFLED) for _ in range(2))
    assert one != other
    assert sorted(one) == sorted(other) == list(range(ROWS))
