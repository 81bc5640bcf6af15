"""The samples of the next epoch, laid out while the one before is read."""

import copy
import os
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders import elastic_pass
from mdstorm_backend.loaders.work_ahead import WorkAhead


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
    made = []
    begin = WorkAhead.begin

    def counted(self: WorkAhead, *arguments: Any) -> None:
        made.append(arguments)
        begin(self, *arguments)

    monkeypatch.setattr(elastic_pass, "_MANY", 1)
    monkeypatch.setattr(WorkAhead, "begin", counted)
    assert epochs(url, num_workers) == expected
    assert len(made) == 3  # in the process of the loader, once in each epoch


def test_a_result_is_taken_once_by_its_key_and_raises_where_it_is_taken() -> None:
    ahead, calls = WorkAhead(), []

    def fail() -> Any:
        calls.append(os.getpid())
        raise ValueError("no such order")

    for _ in range(2):
        ahead.begin("key", fail)
    assert ahead.take("other", lambda: "made now") == "made now"  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no such order"):
        ahead.take("key", lambda: "made now")  # type: ignore[arg-type]
    assert len(calls) == 1
    assert ahead.take("key", lambda: "made now") == "made now"  # type: ignore[arg-type]


def test_what_another_thread_begins_meanwhile_is_not_taken() -> None:
    ahead = WorkAhead()

    class Key:
        def __eq__(self, other: object) -> bool:
            if is_key := isinstance(other, Key):  # as if the other thread ran at this moment
                ahead.begin("other", lambda: "another's")  # type: ignore[arg-type, return-value]
            return is_key

    ahead.begin(Key(), lambda: "its own")  # type: ignore[arg-type, return-value]
    assert ahead.take(Key(), lambda: "made now") == "its own"  # type: ignore[arg-type]


def test_a_copy_has_nothing_ahead() -> None:
    ahead = WorkAhead()
    ahead.begin("key", lambda: "ahead")  # type: ignore[arg-type, return-value]
    assert copy.copy(ahead).take("key", lambda: "now") == "now"
