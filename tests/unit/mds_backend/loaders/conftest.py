"""The numbers read by the loader tests."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import Dataset


@pytest.fixture(scope="module")
def numbers(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset of numbers with ROWS rows in SHARDS shards, as the test module defines them."""
    module = request.module
    directory = tmp_path_factory.mktemp("numbers") / "data"
    return write_numbers(directory, module.ROWS, tasks=module.SHARDS)


@pytest.fixture(scope="module")
def url(numbers: Dataset) -> str:
    return numbers.url


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return a function that sets the environment variables of a rank, as torchrun does."""

    def set_rank(rank: int, size: int) -> None:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(size))

    return set_rank
