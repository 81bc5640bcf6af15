"""Single columns that go into a dataset and come out of it."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mdstorm_backend.datasets.dataset import Dataset

MakeFrame = Callable[..., Any]

UTC = pa.timestamp("us", tz="UTC")
WALL_CLOCK = pa.timestamp("us")


def utc(*args: int) -> dt.datetime:
    return dt.datetime(*args, tzinfo=dt.timezone.utc)


def case(name: str, type_: pa.DataType, literals: list[str], expected: list[Any]) -> Any:
    """SQL literals, and the values of an Arrow type that come out for them."""
    return pytest.param(literals, type_, expected, id=name)


def assert_column(dataset: Dataset, expected: list[Any], type_: pa.DataType) -> None:
    """Compare the column `v` by type and values, NaN being equal to NaN."""
    column = dataset.to_table().column("v")
    assert column.type == type_
    assert repr(column.to_pylist()) == repr(pa.array(expected, type_).to_pylist())
