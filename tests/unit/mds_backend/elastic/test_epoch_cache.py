"""The cache of epochs: kept results, and results that a thread computes in advance."""

import copy
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.elastic import elastic_plan
from mdstorm_backend.elastic.batching import rank_work
from mdstorm_backend.elastic.epoch_cache import EpochCache


def epochs(url: str, num_workers: int) -> list[list[int]]:
    """Read three epochs, leaving the second one halfway through."""
    dataset = StreamingDataset(local=url, batch_size=4, shuffle=True, shuffle_seed=5)
    loader = StreamingDataLoader(dataset, batch_size=4, num_workers=num_workers)
    found: list[list[int]] = []
    for epoch in range(3):
        found.append([])
        for batch in loader:
            found[-1] += batch["number"].tolist()
            if epoch == 1 and len(found[-1]) >= 20:
                break
    return found


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [0, 2])
def test_precomputed_epoch_equals_epoch_computed_on_demand(
    tmp_path: Path, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = write_numbers(tmp_path, 32).url
    expected = epochs(url, num_workers)
    begun: list[object] = []
    made: list[object] = []
    begin = EpochCache.begin

    def counted(self: EpochCache[Any], *arguments: Any) -> None:
        begun.append(arguments)
        begin(self, *arguments)

    def made_once(*arguments: Any) -> Any:
        made.append(arguments)
        return rank_work(*arguments)

    monkeypatch.setattr(elastic_plan, "MANY_SAMPLES", 1)
    monkeypatch.setattr(EpochCache, "begin", counted)
    monkeypatch.setattr(elastic_plan, "rank_work", made_once)
    assert epochs(url, num_workers) == expected
    # Once per epoch in a process that reads; only calls in this process are counted.
    assert len(begun) == (0 if num_workers else 3)
    assert all(made.count(one) == 1 for one in made)


def test_result_is_kept_until_a_different_result_is_requested() -> None:
    ahead: EpochCache[str] = EpochCache()
    assert ahead.get("one", lambda: "made") == "made"
    assert ahead.get("one", lambda: "recreated") == "made"
    assert ahead.get("two", lambda: "another") == "another"
    assert ahead.get("one", lambda: "recreated") == "recreated"


def test_failed_precomputation_runs_once_and_raises_error_when_requested() -> None:
    ahead: EpochCache[str] = EpochCache()
    calls = []

    def fail() -> Any:
        calls.append(threading.current_thread())
        raise ValueError("no such order")

    for _ in range(2):
        ahead.begin("key", fail)
    assert ahead.get("other", lambda: "made now") == "made now"
    with pytest.raises(ValueError, match="no such order"):
        ahead.get("key", lambda: "made now")
    assert len(calls) == 1
    assert calls[0] is not threading.current_thread()
    assert ahead.get("key", lambda: "made now") == "made now"


def test_precomputed_result_is_returned_if_another_thread_starts_a_precomputation() -> None:
    ahead: EpochCache[str] = EpochCache()

    class Key:
        def __eq__(self, other: object) -> bool:
            if is_key := isinstance(other, Key):  # as if the other thread had run at this point
                ahead.begin("other", lambda: "another's")
            return is_key

    ahead.begin(Key(), lambda: "its own")
    assert ahead.get(Key(), lambda: "made now") == "its own"
    assert ahead.get("other", lambda: "made now") == "another's"


def test_copy_does_not_share_the_precomputed_result() -> None:
    ahead: EpochCache[str] = EpochCache()
    ahead.begin("key", lambda: "ahead")
    assert copy.copy(ahead).get("key", lambda: "now") == "now"
