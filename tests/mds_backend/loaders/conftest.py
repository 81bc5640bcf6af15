"""The numbers that loaders read in the tests."""

from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import Dataset


@pytest.fixture(scope="module")
def numbers(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """As many as the module's ROWS, in SHARDS."""
    module = request.module
    directory = tmp_path_factory.mktemp("numbers") / "data"
    return write_numbers(directory, module.ROWS, tasks=module.SHARDS)


@pytest.fixture(scope="module")
def url(numbers: Dataset) -> str:
    return numbers.url
