"""One seed on all ranks: without it each would permute by its own, and lose and repeat rows."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.compat.spark.converters import converter_of
from tests.compat.spark.ways_to_read import Numbers, in_either_order, with_each

from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend.order.exact import DEFAULT_SEED

ROWS = 1_000
SHUFFLED = {"num_epochs": 1, "shuffle_rows": True}

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader")


@pytest.fixture
def thousand(tmp_path: Path) -> SparkDatasetConverter:
    """The numbers from 0 to 999 in eight shards."""
    columns = {"number": range(ROWS)}
    return converter_of(tmp_path / "thousand", columns, {"number": "long"}, tasks=8)


@with_each
@in_either_order
@pytest.mark.parametrize("seed", [{}, {"seed": 0}], ids=["none", "0"])
def test_two_ranks_read_each_row_once(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str, seed: dict[str, Any]
) -> None:
    ranks = [
        numbers(thousand, cur_shard=rank, shard_count=2, order=order, **seed, **SHUFFLED)
        for rank in range(2)
    ]
    assert Counter(ranks[0] + ranks[1]) == Counter(range(ROWS))
    assert ranks[0] != sorted(ranks[0])


@with_each
@in_either_order
def test_shares_without_a_seed_have_the_constant_one(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    arguments = {**SHUFFLED, "cur_shard": 0, "shard_count": 1, "order": order}
    found = numbers(thousand, **arguments)
    assert found == numbers(thousand, seed=DEFAULT_SEED, **arguments)
    assert found == numbers(thousand, seed=None, **arguments)
    # 0 is a seed like any other in the elastic order, and none in Petastorm's.
    assert (found == numbers(thousand, seed=0, **arguments)) == (order == "exact")


@with_each
@in_either_order
def test_without_shard_arguments_the_seed_is_drawn(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    one, other = (numbers(thousand, order=order, **SHUFFLED) for _ in range(2))
    assert one != other
    assert sorted(one) == sorted(other) == list(range(ROWS))


@in_either_order
def test_the_state_of_one_rank_goes_on_on_all(thousand: SparkDatasetConverter, order: str) -> None:
    def loaders() -> list[Any]:
        return [
            thousand.make_torch_dataloader(
                16, cur_shard=rank, shard_count=2, order=order, **SHUFFLED
            )
            for rank in range(2)
        ]

    before, after = loaders(), loaders()
    seen = [n for loader in before for batch in islice(loader, 5) for n in batch["number"].tolist()]
    for loader in after:
        loader.load_state_dict(before[0].state_dict())
        seen += [number for batch in loader for number in batch["number"].tolist()]
    assert Counter(seen) == Counter(range(ROWS))
