"""When a copy is used again, and when a frame is written anew."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compat.spark.converters import directories
from tests.conftest import IS_REFUSING

from mdstorm.spark import make_spark_converter
from mdstorm_backend.datasets.dataset import open_dataset

Frames = Callable[[Any], tuple[Any, Any]]


def same(frame: Any) -> tuple[Any, Any]:
    return frame, frame


def with_column(spark: Any, column: Any) -> Any:
    return spark.range(5).select("id", column.alias("x"))


def functions() -> Any:
    from pyspark.sql import functions

    return functions


REUSED: dict[str, Frames] = {
    "one object with rand()": lambda spark: same(with_column(spark, functions().rand())),
    "one seed": lambda spark: (
        with_column(spark, functions().rand(1)),
        with_column(spark, functions().rand(1)),
    ),
    "filters in another order": lambda spark: (
        spark.range(9).where("id > 1 AND id < 7"),
        spark.range(9).where("id < 7 AND id > 1"),
    ),
    "the same SQL": lambda spark: (
        spark.sql("SELECT 1 AS a, 'x' AS b"),
        spark.sql("SELECT 1 AS a, 'x' AS b"),
    ),
}

NEW: dict[str, Frames] = {
    "another name": lambda spark: (spark.range(5).toDF("a"), spark.range(5).toDF("b")),
    "another type": lambda spark: (
        spark.range(5).selectExpr("CAST(id AS INT) AS a"),
        spark.range(5).selectExpr("CAST(id AS SHORT) AS a"),
    ),
    "another order of columns": lambda spark: (
        spark.range(5).selectExpr("id", "1 AS x"),
        spark.range(5).selectExpr("1 AS x", "id"),
    ),
    "another seed": lambda spark: (
        with_column(spark, functions().rand(1)),
        with_column(spark, functions().rand(2)),
    ),
    "repartition and coalesce": lambda spark: (
        spark.range(5).repartition(1),
        spark.range(5).coalesce(1),
    ),
}


@pytest.mark.parametrize("name", REUSED)
def test_equal_frames_share_a_copy(spark: Any, cache_dir: Path, name: str) -> None:
    first, second = map(make_spark_converter, REUSED[name](spark))
    assert first.cache_dir_url == second.cache_dir_url
    assert (first.file_urls, len(first)) == (second.file_urls, len(second))
    assert directories(cache_dir) == 1


@pytest.mark.parametrize("name", NEW)
def test_different_frames_do_not(spark: Any, cache_dir: Path, name: str) -> None:
    first, second = NEW[name](spark)
    converters = make_spark_converter(first), make_spark_converter(second)
    assert converters[0].cache_dir_url != converters[1].cache_dir_url
    for converter, frame in zip(converters, (first, second), strict=True):
        assert open_dataset(converter.cache_dir_url).schema.names == tuple(frame.columns)
        assert len(converter) == 5


def test_options_belong_to_a_copy(spark: Any, cache_dir: Path) -> None:
    size = "parquet_row_group_size_bytes"
    groups: list[list[dict[str, Any]]] = [
        [
            {},
            {"dtype": "float32"},
            {"compression_codec": None},
            {"compression_codec": "Uncompressed"},
        ],
        [{"compression_codec": "snappy"}, {"compression_codec": "SNAPPY"}],
        [{"dtype": None}],
        *([{size: 1 << 20}], [{size: 2e6}]),
        [{size: 4096}, {size: "4096"}],
        [{size: None}, {size: 0}],
    ]
    urls = [
        {make_spark_converter(spark.range(5), **options).cache_dir_url for options in group}
        for group in groups
    ]
    assert [len(one) for one in urls] == [1] * len(groups)
    assert len(set.union(*urls)) == len(groups)


def test_a_copy_belongs_to_its_parent_directory(spark: Any, tmp_path: Path) -> None:
    parents = [f"file://{tmp_path}/a", f"file://{tmp_path}/b", f"file:{tmp_path}/a/"]
    first, other, again = (
        make_spark_converter(spark.range(5), parent_cache_dir_url=url) for url in parents
    )
    assert other.cache_dir_url.startswith(f"file://{tmp_path}/b/")
    assert first.cache_dir_url == again.cache_dir_url


def test_the_clock_and_user_functions_are_compared_as_plans(
    classic_spark: Any, cache_dir: Path
) -> None:
    double = functions().udf(lambda x: x * 2, "long")
    for column in (functions().current_timestamp(), double("id")):
        frames = [with_column(classic_spark, column) for _ in range(2)]
        first, second = map(make_spark_converter, frames)
        assert first.cache_dir_url == second.cache_dir_url


def test_rows_from_python_and_unseeded_rand_are_new_each_time(
    classic_spark: Any, cache_dir: Path
) -> None:
    rows = [(1, "x")]
    for make in (
        lambda: classic_spark.createDataFrame(rows, ["a", "b"]),
        lambda: with_column(classic_spark, functions().rand()),
    ):
        first, second = make_spark_converter(make()), make_spark_converter(make())
        assert first.cache_dir_url != second.cache_dir_url


@pytest.mark.skipif(IS_REFUSING, reason="caches a frame, which this session refuses")
def test_a_cached_frame_is_the_same_frame(spark: Any, cache_dir: Path) -> None:
    df = spark.range(5).selectExpr("id * 3 AS x")
    first = make_spark_converter(df)
    cached = df.cache()
    try:
        assert make_spark_converter(cached).cache_dir_url == first.cache_dir_url
    finally:
        cached.unpersist()


def test_a_second_conversion_starts_no_job(classic_spark: Any, cache_dir: Path) -> None:
    make_spark_converter(classic_spark.range(5))
    context = classic_spark.sparkContext
    context.setJobGroup("reuse", "reuse")
    make_spark_converter(classic_spark.range(5))
    assert not context.statusTracker().getJobIdsForGroup("reuse")


def test_threads_that_convert_equal_frames_write_one_copy(spark: Any, cache_dir: Path) -> None:
    together = threading.Barrier(4)
    urls: list[str] = []

    def convert() -> None:
        df = spark.range(0, 50, 1, 2).selectExpr("id * 7 AS seven")
        together.wait(timeout=60)
        urls.append(make_spark_converter(df).cache_dir_url)

    threads = [threading.Thread(target=convert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(urls) == 4
    assert len(set(urls)) == 1
    assert directories(cache_dir) == 1
