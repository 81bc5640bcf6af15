"""Readers of several ranks compare their filters, predicates and chosen rows."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.kit.readers import batch_reader, write_parquet
from tests.kit.simulated_ranks import SimulatedRanks
from torch.distributed import HashStore

from mdstorm.errors import InvalidArgumentError
from mdstorm.predicates import in_lambda, in_set
from mdstorm_backend.loaders import agreement


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> SimulatedRanks:
    monkeypatch.setattr(agreement, "DELAY", 0.01)
    return SimulatedRanks(monkeypatch, HashStore())


def read(url: str, rank: int, **options: Any) -> None:
    for _ in batch_reader(url, cur_shard=rank, shard_count=2, num_epochs=1, **options):
        pass


@pytest.mark.parametrize(
    ("column", "step"), [("id", 20), ("part", 1)], ids=["rows and row groups", "only rows"]
)
def test_other_filters_on_a_rank_raise_error(
    tmp_path: Path, ranks: SimulatedRanks, column: str, step: int
) -> None:
    url = write_parquet(tmp_path, {"id": range(80), "part": [n % 4 for n in range(80)]})

    def read_filtered(rank: int) -> None:
        read(url, rank, filters=[(column, "<", step * (3 - rank))])

    with pytest.raises(InvalidArgumentError, match=r"with filters .*pass the same filters"):
        ranks.warnings_of(read_filtered)


def test_other_conditions_on_a_rank_raise_error(tmp_path: Path, ranks: SimulatedRanks) -> None:
    url = write_parquet(tmp_path, {"id": range(80)})
    with pytest.raises(InvalidArgumentError, match="with rows 69"):
        ranks.warnings_of(lambda rank: read(url, rank, where=[("id", "<", 70 - rank)]))


@pytest.mark.parametrize(
    "predicate",
    [
        lambda rank: in_set([rank], "part"),
        lambda rank: in_lambda(["id"], lambda id: id >= 0 * rank),
    ],
    ids=["other rows", "the same rows"],
)
def test_other_predicate_on_a_rank_warns(
    tmp_path: Path, ranks: SimulatedRanks, predicate: Any
) -> None:
    url = write_parquet(tmp_path, {"id": range(80), "part": [n % 4 for n in range(80)]})
    found = ranks.warnings_of(lambda rank: read(url, rank, predicate=predicate(rank)))
    assert [one for one in found if re.search("with predicate .*same predicate", one)]


def test_training_and_validation_filters_on_all_ranks_are_not_reported(
    tmp_path: Path, ranks: SimulatedRanks
) -> None:
    url = write_parquet(tmp_path, {"id": range(80)})

    def train_and_validate(rank: int) -> None:
        for filters in [("id", "<", 60)], [("id", ">=", 60)]:
            read(url, rank, filters=filters)

    assert all("Join" in one for one in ranks.warnings_of(train_and_validate))
