"""Loaders of Accelerate over what is split already; a stand-in has the state of version 1.15."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers
from torch.utils.data import DataLoader, IterableDataset

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError

ROWS = 40


class PartialState:
    _shared_state: dict[str, Any] = {"num_processes": 2}  # noqa: RUF012 -- Accelerate's own


class GradientState:
    active_dataloader: Any = None


class Prepared:
    """What `accelerator.prepare` makes of a loader: it says that it is iterated."""

    def __init__(self, dataset: Any, **options: Any) -> None:
        self.loader = DataLoader(dataset, 4, **options)
        self.dataset = dataset

    def __iter__(self) -> Any:
        GradientState.active_dataloader = self
        yield from self.loader
        GradientState.active_dataloader = None


class Shard(IterableDataset[Any]):
    """Every other sample."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        for number, sample in enumerate(self.dataset):
            if number % 2 == 0:
                yield sample


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset, in the first of two processes."""
    state = ModuleType("accelerate.state")
    state.PartialState, state.GradientState = PartialState, GradientState  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "accelerate.state", state)
    monkeypatch.setattr(GradientState, "active_dataloader", None)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    return write_numbers(tmp_path / "data", ROWS).url


def share(url: str) -> StreamingDataset:
    return StreamingDataset(local=url, batch_size=4)


def rows(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch["number"].tolist()]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"num_workers": 1}, marks=pytest.mark.long)], ids=str
)
def test_a_share_is_not_split_again(url: str, wrapped: bool, options: dict[str, Any]) -> None:
    for dataset in (
        share(url),
        StreamingDataset(local=url, order=ExactOrder(rank=1, world_size=2)),
        StreamingDataLoader(share(url), 4).dataset,
    ):
        prepared = Prepared(Shard(dataset) if wrapped else dataset, **options)
        with pytest.raises(InvalidArgumentError, match="among 2 ranks before, so that rows would"):
            next(iter(prepared))


@pytest.mark.long
def test_a_spawned_worker_is_not_even_started(url: str) -> None:
    prepared = Prepared(Shard(share(url)), num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(InvalidArgumentError, match="With an Accelerator, prepare a Streaming"):
        next(iter(prepared))


def test_all_rows_may_be_split(url: str) -> None:
    whole = StreamingDataset(local=url, order=ExactOrder())
    assert rows(Prepared(Shard(whole))) == list(range(0, ROWS, 2))


@pytest.mark.long
def test_other_loaders_read_their_share(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Prepared([{"number": 1}] * 8)
    for _ in other:
        assert len(rows(DataLoader(share(url), 4))) == ROWS // 2
        assert len(rows(StreamingDataLoader(share(url), 4))) == ROWS // 2


@pytest.mark.parametrize("shared", [{}, {"num_processes": 1}], ids=str)
def test_one_process_of_accelerate_splits_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch, shared: dict[str, Any]
) -> None:
    monkeypatch.setattr(PartialState, "_shared_state", shared)
    assert len(rows(Prepared(share(url)))) == ROWS // 2
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(PartialState, "_shared_state", {"num_processes": 2})
    assert Counter(rows(Prepared(share(url)))) == Counter(range(ROWS))
