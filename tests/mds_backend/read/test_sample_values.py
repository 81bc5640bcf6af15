"""The value of every Spark type, in samples of one size and of several."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.foreign import URL, shard_bytes, shard_info, variable
from tests.mds_backend.read.core_rows import by_core, identity
from tests.mds_backend.small_datasets import array_of, write_dataset

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.values.spark_types import SparkType
from mdstorm_backend.read.mds_shard import MDSShard

NAN, UTC = float("nan"), timezone.utc

EXAMPLES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "byte": [1, -128],
    "integer": [1, -(1 << 31)],
    "long": [1, -(1 << 63)],
    "float": [0.5, NAN],
    "double": [0.1, NAN],
    "date": [date(1, 1, 1), date(2020, 2, 29)],
    "timestamp": [datetime(1969, 12, 31, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(2020, 2, 29)],
    "interval day to second": [timedelta(microseconds=-1), timedelta(days=1)],
}
SCALARS = {**EXAMPLES, "string": ["é", ""], "binary": [b"\xff", b""],
           "decimal(5,2)": [Decimal("1.50"), Decimal("-0.01")]}  # fmt: skip
COLUMNS: list[tuple[SparkType, list[Any]]] = [
    *SCALARS.items(),
    *((type_, [values[0], None, values[1]]) for type_, values in SCALARS.items()),
    *((array_of(type_), [values, values[::-1]]) for type_, values in EXAMPLES.items()),
    *((array_of(type_), [values, [], values[:1]]) for type_, values in EXAMPLES.items()),
    *((array_of(type_), [values, None, values]) for type_, values in EXAMPLES.items()),
    *((array_of(type_), [values, None, []]) for type_, values in EXAMPLES.items()),
    *((array_of(type_), [[values[0], None]]) for type_, values in EXAMPLES.items()),
]


@pytest.mark.parametrize("beside", [None, "text"])
@pytest.mark.parametrize(("spark_type", "values"), COLUMNS, ids=str)
def test_a_sample_of_every_type_is_a_row_of_the_core(
    spark_type: SparkType, values: list[Any], beside: str | None, tmp_path: Path
) -> None:
    """Alone it has one size in many cases, beside a text never."""
    columns, types = {"a": values}, {"a": spark_type}
    if beside:
        columns, types = {**columns, "b": [beside] * len(values)}, {**types, "b": "string"}
    shard = write_dataset(tmp_path, columns, types).shard(0)
    for row in range(len(values)):
        sample, expected = shard.sample(row), by_core(shard, row, list(columns))
        assert {n: identity(v) for n, v in sample.items()} == {
            n: identity(v) for n, v in expected.items()
        }


def test_a_decimal_of_other_digits_than_its_type_is_refused(tmp_path: Path) -> None:
    shard = write_dataset(tmp_path, {"a": [Decimal("1.50")]}, {"a": "decimal(5,2)"}).shard(0)
    content = shard_bytes([variable(b"1.5")])
    info = shard_info(content, {"a": ("str_decimal", None)}, 1, "x.mds")
    with pytest.raises(CorruptDatasetError, match="other digits"):
        MDSShard(content, info, shard.schema, url=URL).sample(0)
