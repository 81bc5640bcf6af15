"""States where batches are row groups, which only the rank itself can go on with."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import rows, torch_loader

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import Batching, PassRunner, Schedule, converted

ROWS, SHARDS = 61, 9
SHUFFLE = {"seed": 3, "window": 15}


def row_groups(dataset: Dataset, rank: int, world_size: int) -> PassRunner:
    order = ExactOrder(rank=rank, world_size=world_size, **SHUFFLE)
    source = StreamingDataset(local=dataset.url, order=order)
    return PassRunner(Schedule(source._mdstorm.options), Batching(ROWS, by_shard=True))


def groups_of(runner: PassRunner) -> Iterator[list[int]]:
    def groups(blocks: Any) -> Any:
        for block in blocks:
            yield block.batch["number"].tolist(), block.marks[-1], sum(block.sizes)

    return runner.run(lambda rest: converted(rest.blocks(), groups))


def rest_of(runner: PassRunner) -> list[int]:
    return [row for group in groups_of(runner) for row in group]


def loader_of(
    dataset: Dataset, rank: int, world_size: int, batch_size: int = 4, **order: Any
) -> StreamingDataLoader:
    share = {**SHUFFLE, "rank": rank, "world_size": world_size, **order}
    return torch_loader(dataset, shuffle=share, batch_size=batch_size)


def taken(loader: StreamingDataLoader, batches: int) -> list[int]:
    return rows(islice(loader, batches))


def test_row_groups_go_on_where_a_loader_of_the_same_rank_stood(numbers: Dataset) -> None:
    for rank in range(2):
        loader, whole = loader_of(numbers, rank, 2), rest_of(row_groups(numbers, rank, 2))
        seen, after = taken(loader, 3), row_groups(numbers, rank, 2)
        after.load_state_dict(loader.state_dict())
        assert seen + rest_of(after) == whole


def test_row_groups_do_not_go_on_with_a_share_that_was_split_anew(numbers: Dataset) -> None:
    first = loader_of(numbers, 0, 3)
    taken(first, 2)
    other_world, padded = loader_of(numbers, 0, 2), loader_of(numbers, 0, 2, padded_to=4)
    other_world.load_state_dict(first.state_dict())
    for loader in (other_world, padded):
        taken(loader, 2)
        groups = row_groups(numbers, 0, 2)
        with pytest.raises(StateMismatchError, match="not this rank's share of an epoch"):
            groups.load_state_dict(loader.state_dict())
        assert rest_of(groups) == rest_of(row_groups(numbers, 0, 2))


def test_a_state_of_row_groups_is_refused_by_loaders(numbers: Dataset) -> None:
    groups = row_groups(numbers, 0, 2)
    next(groups_of(groups))
    loader = loader_of(numbers, 0, 2)
    with pytest.raises(StateMismatchError, match="taken by a reader of row groups"):
        loader.load_state_dict(groups.state_dict())
    assert taken(loader, 100) == taken(loader_of(numbers, 0, 2), 100)


@pytest.mark.parametrize("rank", [0, 1])
def test_row_groups_go_on_after_any_of_them(numbers: Dataset, rank: int) -> None:
    """One of the two ranks has a row more than half of them."""
    whole = list(groups_of(row_groups(numbers, rank, 2)))
    for done in range(1, len(whole)):
        before, after = row_groups(numbers, rank, 2), row_groups(numbers, rank, 2)
        list(islice(groups_of(before), done))
        after.load_state_dict(before.state_dict())
        assert list(groups_of(after)) == whole[done:]
