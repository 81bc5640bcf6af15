"""Converters whose cache directory is on a mount of remote storage."""

from pathlib import Path
from typing import Any

import pytest
from tests.compat.spark.converters import IN_ORDER
from tests.conftest import of_values, runs_python_on_executors

from mdstorm import make_batch_reader
from mdstorm.spark import make_spark_converter


@of_values
@pytest.mark.parametrize(
    "staging",
    [
        pytest.param(False, id="executors write", marks=runs_python_on_executors),
        pytest.param(True, id="staged"),
    ],
)
def test_a_converter_writes_reads_and_deletes(spark: Any, volume: Path, staging: bool) -> None:
    options: dict[str, Any] = {
        "parent_cache_dir_url": f"file://{volume}/cache",
        "parquet_row_group_size_bytes": 1000,
        "cache_key": "numbers",
        "staging": staging,
    }
    df = spark.range(200).repartition(2)
    converter = make_spark_converter(df, **options)
    assert len(converter.file_urls) > 2
    (batch,) = converter.make_torch_dataloader(batch_size=200, **IN_ORDER)
    assert sorted(batch["id"].tolist()) == [*range(200)]
    with make_batch_reader(converter.file_urls) as reader:
        assert sum(len(item.id) for item in reader) == 200
    again = make_spark_converter(df, **options)
    assert again.cache_dir_url == converter.cache_dir_url
    again.delete()
    assert not Path(str(converter.cache_dir_url).removeprefix("file://")).exists()
