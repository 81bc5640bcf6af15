"""Results that a thread makes before they are asked for, such as the samples of an epoch."""

import copy
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.base.threads import WorkAhead
from mdstorm_backend.elastic import elastic_sampler


def epochs(url: str, num_workers: int) -> list[list[int]]:
    """Three epochs, the second of which is left in its middle."""
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


@pytest.mark.parametrize("num_workers", [0, 2])
def test_epochs_that_are_laid_out_ahead_are_the_same(
    tmp_path: Path, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = write_numbers(tmp_path, 32).url
    expected = epochs(url, num_workers)
    made: list[Any] = []
    begin = WorkAhead.begin

    def counted(self: WorkAhead[Any], *arguments: Any) -> None:
        made.append(arguments)
        begin(self, *arguments)

    monkeypatch.setattr(elastic_sampler, "_MANY", 1)
    monkeypatch.setattr(WorkAhead, "begin", counted)
    assert epochs(url, num_workers) == expected
    assert len(made) == 3  # in the process of the loader, once in each epoch


def test_a_result_is_kept_until_the_next_one() -> None:
    ahead: WorkAhead[str] = WorkAhead()
    assert ahead.get("one", lambda: "made") == "made"
    assert ahead.get("one", lambda: "made anew") == "made"
    assert ahead.get("two", lambda: "another") == "another"
    assert ahead.get("one", lambda: "made anew") == "made anew"


def test_a_thread_makes_a_result_once_which_raises_where_it_is_asked_for() -> None:
    ahead: WorkAhead[str] = WorkAhead()
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


def test_what_another_thread_begins_meanwhile_is_not_taken() -> None:
    ahead: WorkAhead[str] = WorkAhead()

    class Key:
        def __eq__(self, other: object) -> bool:
            if is_key := isinstance(other, Key):  # as if the other thread ran at this moment
                ahead.begin("other", lambda: "another's")
            return is_key

    ahead.begin(Key(), lambda: "its own")
    assert ahead.get(Key(), lambda: "made now") == "its own"
    assert ahead.get("other", lambda: "made now") == "another's"


def test_a_copy_has_nothing_ahead() -> None:
    ahead: WorkAhead[str] = WorkAhead()
    ahead.begin("key", lambda: "ahead")
    assert copy.copy(ahead).get("key", lambda: "now") == "now"
