"""When a copy is reused and when a DataFrame is converted again."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import functions
from tests.conftest import IS_REFUSING, of_values, runs_python_on_executors
from tests.kit.kept import write_copy
from tests.unit.compat.spark.converters import directories, ids

from mdstorm._spark.copies import find_or_convert, forget, identify
from mdstorm.spark import make_spark_converter

Frames = Callable[[Any], tuple[Any, ...]]


def with_column(spark: Any, column: Any) -> Any:
    return spark.range(5).select("id", column.alias("x"))


def selected(*expressions: list[str]) -> Frames:
    """Return a function that makes one DataFrame for each list of SQL expressions."""
    return lambda spark: tuple(spark.range(5).selectExpr(*each) for each in expressions)


REUSED: dict[str, Frames] = {
    "one object with rand()": lambda spark: (with_column(spark, functions.rand()),) * 2,
    "one seed": selected(*[["id", "rand(1) AS x"]] * 2),
    "filters in another order": lambda spark: (
        spark.range(9).where("id > 1 AND id < 7"),
        spark.range(9).where("id < 7 AND id > 1"),
    ),
    "the same SQL": lambda spark: tuple(spark.sql("SELECT 1 AS a, 'x' AS b") for _ in range(2)),
}
NEW: dict[str, Frames] = {
    "another name": selected(["id AS a"], ["id AS b"]),
    "another type": selected(["CAST(id AS INT) AS a"], ["CAST(id AS SHORT) AS a"]),
    "another order of columns": selected(["id", "1 AS x"], ["1 AS x", "id"]),
    "another seed": selected(["id", "rand(1) AS x"], ["id", "rand(2) AS x"]),
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
def test_different_frames_have_different_identities(spark: Any, name: str) -> None:
    first, second = (identify(frame, {})[0] for frame in NEW[name](spark))
    assert first != second


@of_values
def test_differently_spelled_options_and_parents_share_a_copy(spark: Any, tmp_path: Path) -> None:
    size = "parquet_row_group_size_bytes"
    groups: list[list[dict[str, Any]]] = [
        [{}, {"dtype": "float32"}, {"compression_codec": "Uncompressed"}],
        [{"compression_codec": "snappy"}, {"compression_codec": "SNAPPY"}],
        [{size: 4096}, {size: "4096"}],
        [{size: None}, {size: 0}],
    ]
    for group in groups:
        parents = f"file://{tmp_path}/a", f"file:{tmp_path}/a/"
        urls = {
            make_spark_converter(
                spark.range(5), parent_cache_dir_url=parent, **options
            ).cache_dir_url
            for options in group
            for parent in parents
        }
        assert len(urls) == 1
        assert urls.pop().startswith(f"file://{tmp_path}/a/")


def test_copies_of_frames_with_current_time_or_functions_are_reused_if_plans_are_equal(
    classic_spark: Any, cache_dir: Path
) -> None:
    double = functions.udf(lambda x: x * 2, "long")
    for column in (functions.current_timestamp(), double("id")):
        frames = [with_column(classic_spark, column) for _ in range(2)]
        first, second = map(make_spark_converter, frames)
        assert first.cache_dir_url == second.cache_dir_url


def test_frames_from_python_rows_or_unseeded_rand_have_different_identities(
    classic_spark: Any,
) -> None:
    rows = [(1, "x")]
    for make in (
        lambda: classic_spark.createDataFrame(rows, ["a", "b"]),
        lambda: with_column(classic_spark, functions.rand()),
    ):
        assert identify(make(), {})[0] != identify(make(), {})[0]


@pytest.mark.skipif(IS_REFUSING, reason="this session does not allow caching frames")
def test_cached_frame_reuses_copy_of_uncached_frame(spark: Any, cache_dir: Path) -> None:
    df = spark.range(5).selectExpr("id * 3 AS x")
    first = make_spark_converter(df)
    cached = df.cache()
    try:
        assert make_spark_converter(cached).cache_dir_url == first.cache_dir_url
    finally:
        cached.unpersist()


def test_second_conversion_starts_no_spark_job(classic_spark: Any, cache_dir: Path) -> None:
    make_spark_converter(classic_spark.range(5))
    context = classic_spark.sparkContext
    context.setJobGroup("reuse", "reuse")
    make_spark_converter(classic_spark.range(5))
    assert not context.statusTracker().getJobIdsForGroup("reuse")


def test_threads_that_convert_equal_frames_write_one_copy(spark: Any, cache_dir: Path) -> None:
    together = threading.Barrier(4)

    def convert(_: int) -> str:
        df = spark.range(0, 50, 1, 2).selectExpr("id * 7 AS seven")
        together.wait(timeout=60)
        return str(make_spark_converter(df).cache_dir_url)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(convert, range(4)))) == 1
    assert directories(cache_dir) == 1


def test_overwritten_source_is_converted_again(spark: Any, cache_dir: Path, tmp_path: Path) -> None:
    source = str(tmp_path / "source with blank")
    spark.range(5).coalesce(1).write.parquet(source)
    first = make_spark_converter(spark.read.parquet(source))
    assert make_spark_converter(spark.read.parquet(source)).file_urls == first.file_urls
    spark.range(7, 9).coalesce(1).write.mode("overwrite").parquet(source)
    second = make_spark_converter(spark.read.parquet(source))
    assert (ids(first), ids(second)) == ([0, 1, 2, 3, 4], [7, 8])


@of_values
@pytest.mark.parametrize(
    ("left", "cache_key"), [("nothing", None), ("no index", None), ("nothing", "rows")]
)
def test_copy_with_deleted_files_is_written_again(
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
def test_frame_is_converted_again_after_a_failed_conversion(
    spark: Any, cache_dir: Path, tmp_path: Path
) -> None:
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


def frame(*files: str, plan: int = 7, schema: str = "[]") -> Any:
    """Return a stand-in for a Spark Connect frame that has cached an outdated hash."""
    fresh = SimpleNamespace(semanticHash=lambda: plan)
    return SimpleNamespace(
        select=lambda star: fresh,
        semanticHash=lambda: "stale",
        schema=SimpleNamespace(json=lambda: schema),
        inputFiles=lambda: list(files),
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows 100%.csv"
    path.write_text("1\n2\n")
    os.utime(path, (1000, 1000))
    return path


def url_of(path: Path) -> str:
    """Return a file's URL as Spark spells it."""
    return path.as_uri().replace("file:///", "file:/")


def test_frame_identity_ignores_file_order(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.touch()
    urls = [url_of(source), url_of(other)]
    assert identify(frame(*urls), {}) == identify(frame(*urls[::-1]), {})


@pytest.mark.parametrize("change", ["size", "time", "removed"])
def test_frame_identity_changes_with_source_file(source: Path, change: str) -> None:
    before = identify(frame(url_of(source)), {})
    if change == "size":
        source.write_text("1\n2\n3\n")
        os.utime(source, (1000, 1000))
    elif change == "time":
        os.utime(source, (2000, 2000))
    else:
        source.unlink()
    after = identify(frame(url_of(source)), {})
    assert all(one != other for one, other in zip(before, after, strict=True))


#: What else may differ, and whether processes without the plan can see it.
PARTS: dict[str, tuple[Any, bool]] = {
    "plan": (lambda url: (frame(url, plan=8), {"parent": "a"}), False),
    "schema": (lambda url: (frame(url, schema="[1]"), {"parent": "a"}), True),
    "options": (lambda url: (frame(url), {"parent": "b"}), True),
    "another file": (lambda url: (frame(url, url + "z"), {"parent": "a"}), True),
}


@pytest.mark.parametrize("part", PARTS)
def test_frame_identity_changes_with_each_part(source: Path, part: str) -> None:
    changed, is_in_source = PARTS[part]
    url = url_of(source)
    content, of_source = identify(frame(url), {"parent": "a"})
    other, of_other = identify(*changed(url))
    assert other != content
    assert (of_other != of_source) == is_in_source


@pytest.fixture
def convert(tmp_path: Path) -> Iterator[Callable[[Any], str]]:
    """Return a function that converts a frame, or finds its copy, which is forgotten later."""
    urls: list[str] = []

    def write() -> str:
        urls.append(write_copy(tmp_path, len(urls)))
        return urls[-1]

    yield lambda one: find_or_convert(one, {"parent": str(tmp_path)}, write, None)
    for url in urls:
        forget(url)


@pytest.mark.parametrize("is_same", [True, False])
def test_copy_is_reused_only_if_plans_with_equal_hashes_are_equal(
    convert: Callable[[Any], str], is_same: bool
) -> None:
    one, other = frame(), frame()
    for each in (one, other):
        each._jdf, each.sameSemantics = None, lambda _: is_same
    assert (convert(one) == convert(other)) == is_same


def test_copy_without_a_comparable_plan_is_reused_until_it_is_deleted_or_forgotten(
    convert: Callable[[Any], str],
) -> None:
    first = convert(frame())
    assert convert(frame()) == first
    assert convert(frame(plan=8)) != first
    Path(first.removeprefix("file://"), "index.json").unlink()
    second = convert(frame())
    assert second != first
    forget(second)
    assert convert(frame()) != second


@pytest.mark.parametrize(
    "url", ["file:/nowhere/x.csv", "hdfs://host:1/x.csv", "unknown://x/y.csv", "", "x.csv"]
)
def test_identity_of_unreadable_file_depends_on_its_name(url: str) -> None:
    content, source = identify(frame(url), {})
    assert (content, source) == identify(frame(url), {})
    assert source != identify(frame(url + "z"), {})[1]
