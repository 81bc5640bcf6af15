"""Fixtures for the tests of TensorFlow datasets."""

from collections.abc import Iterator

import pytest
from tensorflow.python.distribute import distribute_lib


@pytest.fixture(autouse=True)
def without_strategies() -> Iterator[None]:
    """Forget the strategies that a test has created, as in a new process."""
    yield
    distribute_lib.distribution_strategy_gauge.get_cell("V2").set("")
