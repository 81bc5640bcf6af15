"""States where batches are row groups, which only the rank itself can go on with."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import rows, torch_loader

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
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


def loader_of(dataset: Dataset, rank: int, world_size: int) -> StreamingDataLoader:
    share = {**SHUFFLE, "rank": rank, "world_size": world_size}
    return torch_loader(dataset, shuffle=share, batch_size=4)


def taken(loader: StreamingDataLoader, batches: int) -> list[int]:
    return rows(islice(loader, batches))


def test_row_groups_and_loaders_refuse_states_of_each_other(numbers: Dataset) -> None:
    groups, loader = row_groups(numbers, 0, 2), loader_of(numbers, 0, 2)
    next(groups_of(groups))
    taken(loader, 3)
    with pytest.raises(StateMismatchError, match="taken by one kind, and this is the other"):
        loader_of(numbers, 0, 2).load_state_dict(groups.state_dict())
    after = row_groups(numbers, 0, 2)
    with pytest.raises(StateMismatchError, match="taken by one kind, and this is the other"):
        after.load_state_dict(loader.state_dict())
    assert rest_of(after) == rest_of(row_groups(numbers, 0, 2))


@pytest.mark.parametrize("rank", [0, 1])
def test_row_groups_go_on_after_any_of_them(numbers: Dataset, rank: int) -> None:
    """One of the two ranks has a row more than half of them."""
    whole = list(groups_of(row_groups(numbers, rank, 2)))
    for done in range(1, len(whole)):
        before, after = row_groups(numbers, rank, 2), row_groups(numbers, rank, 2)
        list(islice(groups_of(before), done))
        after.load_state_dict(before.state_dict())
        assert list(groups_of(after)) == whole[done:]
