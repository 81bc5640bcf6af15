"""Workers of PyTorch's own loader over a `StreamingDataset`, and what their parent knows."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from tests.mds_backend.loaders.loaders import in_either_order, rows
from torch.utils.data import DataLoader

from mdstorm_backend import ExactOrder, StreamingDataset

ROWS, SHARDS = 103, 4
BATCH = 8


def plain(url: str, order: str, num_workers: int = 0, **options: Any) -> DataLoader[Any]:
    exact = ExactOrder(3, shuffle_rows=True) if order == "exact" else None
    dataset = StreamingDataset(local=url, order=exact, shuffle=exact is None, batch_size=BATCH)
    return DataLoader(dataset, BATCH, num_workers=num_workers, **options)


def test_spawned_workers_have_the_world_of_their_parent(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    iterator = iter(plain(url, "elastic", 1, multiprocessing_context="spawn"))
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert len(rows(iterator)) == ROWS // 2 + 1


@in_either_order
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_only_one_iteration_of_workers_goes_on_with_the_state_of_the_parent(
    url: str, order: str, method: str
) -> None:
    first: Any = plain(url, order)
    begun = rows(islice(first, 4))
    second: Any = plain(url, order, 2, multiprocessing_context=method)
    second.dataset.load_state_dict(first.dataset.state_dict())
    assert second.dataset.state_dict() == first.dataset.state_dict()
    torch.manual_seed(1)
    rest = rows(second)
    torch.manual_seed(1)  # a seed that is the same each time does not join iterations
    following = rows(second)
    for samples in (begun + rest, following):
        assert Counter(samples) == Counter(range(ROWS))
    assert following != begun + rest  # in permutations of its own
