"""Copies whose source has changed, or which are gone."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.compat.spark.converters import directories, ids
from tests.conftest import runs_python_on_executors

from mdstorm.spark import make_spark_converter


def test_an_overwritten_source_is_noticed(spark: Any, cache_dir: Path, tmp_path: Path) -> None:
    source = str(tmp_path / "source with blank")
    spark.range(5).coalesce(1).write.parquet(source)
    first = make_spark_converter(spark.read.parquet(source))
    assert make_spark_converter(spark.read.parquet(source)).file_urls == first.file_urls
    spark.range(7, 9).coalesce(1).write.mode("overwrite").parquet(source)
    second = make_spark_converter(spark.read.parquet(source))
    assert (ids(first), ids(second)) == ([0, 1, 2, 3, 4], [7, 8])


@pytest.mark.parametrize(
    ("left", "cache_key"), [("nothing", None), ("no index", None), ("nothing", "rows")]
)
def test_a_copy_deleted_behind_our_back_is_written_again(
    spark: Any, cache_dir: Path, left: str, cache_key: str | None
) -> None:
    first = make_spark_converter(spark.range(5), cache_key=cache_key)
    directory = Path(first.cache_dir_url.removeprefix("file://"))
    if left == "nothing":
        shutil.rmtree(directory)
    else:
        (directory / "index.json").unlink()
    second = make_spark_converter(spark.range(5), cache_key=cache_key)
    assert second.cache_dir_url != first.cache_dir_url
    assert ids(second) == [0, 1, 2, 3, 4]


@runs_python_on_executors
def test_a_failed_conversion_is_not_remembered(spark: Any, cache_dir: Path, tmp_path: Path) -> None:
    flag = tmp_path / "flag"

    def fail_without(batches: Any) -> Any:
        import os

        if not os.path.exists(str(flag)):
            raise ValueError("not yet")
        yield from batches

    df = spark.range(5).mapInArrow(fail_without, "id long")
    with pytest.raises(Exception, match="not yet"):
        make_spark_converter(df)
    assert directories(cache_dir) == 0
    flag.touch()
    assert ids(make_spark_converter(df)) == [0, 1, 2, 3, 4]
