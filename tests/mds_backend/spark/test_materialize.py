"""A DataFrame becomes a dataset: order, shards, and what is refused before anything happens."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mdstorm_backend.datasets.dataset import open_dataset
from mdstorm_backend.errors import DatasetExistsError, InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.spark.materialization import materialize


def ids(target: Path) -> list[int]:
    return open_dataset(str(target)).to_table()["id"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("partitions", [1, 3])
def test_samples_come_in_the_order_of_the_partitions(
    spark: Any, target: Path, partitions: int
) -> None:
    dataset = materialize(spark.range(0, 200, 1, partitions), str(target))
    assert len(dataset) == 200
    assert ids(target) == list(range(200))
    assert len(dataset.index.shards) == partitions


def test_empty_partitions_leave_no_shard(spark: Any, target: Path) -> None:
    df = spark.range(0, 20, 1, 10).where("id IN (4, 5, 18)")
    dataset = materialize(df, str(target))
    assert [shard.samples for shard in dataset.index.shards] == [2, 1]
    assert ids(target) == [4, 5, 18]


def test_an_empty_frame_is_a_dataset_of_no_samples(spark: Any, target: Path) -> None:
    df = spark.range(0).selectExpr("id", "array(id) AS a", "named_struct('b', id) AS s")
    dataset = materialize(df, str(target))
    assert (len(dataset), dataset.index.shards) == (0, ())
    assert dataset.schema.names == ("id", "a", "s")
    with pytest.warns(UserWarning, match="No matching data is available"):
        table = dataset.to_table()
    assert table.num_rows == 0
    assert table.schema.field("s").type == pa.struct([("b", pa.int64())])


def test_columns_keep_order_type_and_nullability(spark: Any, target: Path) -> None:
    df = spark.range(2).selectExpr("id AS z", "IF(id = 0, NULL, 'x') AS a", "1.5D AS m")
    dataset = materialize(df, str(target))
    assert [(c.name, c.spark_type, c.nullable) for c in dataset.schema] == [
        ("z", "long", False),
        ("a", "string", True),
        ("m", "double", False),
    ]
    assert dataset.index.shards[0].column_names == ("a", "m", "z")


@pytest.mark.parametrize(
    ("shard_size", "limit"),
    [(None, 1 << 26), (0, 1 << 26), ("5000", 5000), (1 << 40, (1 << 32) - 1)],
    ids=str,
)
def test_shard_size_has_a_default_and_a_maximum(
    spark: Any, target: Path, shard_size: Any, limit: int
) -> None:
    dataset = materialize(spark.range(1), str(target), shard_size=shard_size)
    assert dataset.index.shards[0].size_limit == limit


@pytest.mark.parametrize("compression", ["zstd:1", "snappy"])
def test_compressed_shards(spark: Any, target: Path, compression: str) -> None:
    dataset = materialize(spark.range(0, 100, 1, 1), str(target), compression=compression)
    (shard,) = dataset.index.shards
    assert shard.compression == compression
    assert shard.zip_data is not None
    assert shard.zip_data.basename.endswith(f".mds.{compression.partition(':')[0]}")
    names = {path.name for path in target.iterdir()}
    assert names == {"_mdstorm", "index.json", shard.zip_data.basename}
    assert ids(target) == list(range(100))


def test_one_job_writes_everything(classic_spark: Any, target: Path) -> None:
    context = classic_spark.sparkContext
    context.setJobGroup("one job", "one job")
    materialize(classic_spark.range(0, 10, 1, 5), str(target))
    assert len(context.statusTracker().getJobIdsForGroup("one job")) == 1


def test_an_existing_dataset_stays_until_one_that_may_replace_it_is_complete(
    spark: Any, target: Path
) -> None:
    materialize(spark.range(3), str(target))
    with pytest.raises(DatasetExistsError, match="already holds a dataset"):
        materialize(spark.range(5), str(target))
    assert ids(target) == [0, 1, 2]
    before = set(target.glob("*.mds"))
    fails = spark.range(5).selectExpr("assert_true(id < 4, 'no such value') IS NULL AS a")
    with pytest.raises(Exception, match="no such value"):
        materialize(fails, str(target), overwrite=True)
    assert ids(target) == [0, 1, 2]
    materialize(spark.range(5), str(target), overwrite=True)
    assert ids(target) == [0, 1, 2, 3, 4]
    assert before.isdisjoint(target.glob("*.mds"))


REFUSED_LITERALS = {
    "void": "NULL",
    "years": "INTERVAL '1' YEAR",
    "nested": "array(INTERVAL '1' MONTH)",
    "inside": "named_struct('a', NULL)",
}


def test_all_refused_columns_are_named_and_nothing_is_written(spark: Any, target: Path) -> None:
    columns = ", ".join(f"{literal} AS {name}" for name, literal in REFUSED_LITERALS.items())
    with pytest.raises(UnsupportedTypeError) as caught:
        materialize(spark.sql(f"SELECT 1 AS fine, {columns}"), str(target))
    assert list(caught.value.columns) == list(REFUSED_LITERALS)
    assert not target.exists()


@pytest.mark.parametrize(
    "literal", ["parse_json('1')", "make_interval(1)", "TIME'10:00:00'"], ids=lambda s: s[:10]
)
def test_types_of_spark_4_are_refused(frame: Any, target: Path, literal: str) -> None:
    pytest.importorskip("pyspark", "4.1", reason="an older PySpark cannot describe the type")
    with pytest.raises(UnsupportedTypeError, match="'v'"):
        materialize(frame(literal), str(target))
    assert not target.exists()


def test_no_job_starts_for_a_refused_column(classic_spark: Any, target: Path) -> None:
    context = classic_spark.sparkContext
    context.setJobGroup("refused", "refused")
    with pytest.raises(UnsupportedTypeError):
        materialize(classic_spark.sql("SELECT NULL AS void"), str(target))
    assert not context.statusTracker().getJobIdsForGroup("refused")


@pytest.mark.parametrize(
    ("expressions", "options", "message"),
    [
        ([], {}, "no columns"),
        (["id", "id"], {}, r"\['id'\] occur more than once"),
        (["id"], {"dtype": "float16"}, "float16 is not supported"),
        (["id"], {"shard_size": -1}, "found -1"),
        (["id"], {"shard_size": "big"}, "found 'big'"),
        (["id"], {"compression": "lzo"}, "'lzo' is unknown"),
        (["id"], {"compression": "zstd:99"}, "'zstd:99' is unknown"),
        (["id"], {"storage_options": {"secret": "hush"}}, "their own credentials"),
    ],
    ids=["no column", "repeated", "dtype", "negative", "text", "codec", "level", "secret"],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(
    spark: Any, target: Path, expressions: list[str], options: dict[str, Any], message: str
) -> None:
    df = spark.range(3).selectExpr(*expressions)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        materialize(df, str(target), **options)
    assert "hush" not in str(caught.value)
    assert not target.exists()
