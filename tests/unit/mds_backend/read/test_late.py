"""Values that are decoded when they are used."""

import os

import pytest

from mdstorm_backend.read.late import default_workers


@pytest.mark.parametrize(("processors", "expected"), [(1, 1), (3, 3), (8, 8), (9, 8)])
def test_number_of_threads_is_that_of_usable_processors_up_to_eight(
    processors: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usable = set(range(processors))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: usable, raising=False)
    assert default_workers() == expected


@pytest.mark.parametrize(("processors", "expected"), [(None, 1), (3, 3), (9, 8)])
def test_all_processors_are_usable_where_none_can_be_excluded(
    processors: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MacOS and Windows have no affinity, and a system may not state how many it has."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    assert default_workers() == expected
