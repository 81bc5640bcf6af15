"""Writing a DataFrame as one dataset or one per partition, and invalid arguments."""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import of_values
from tests.kit.small_datasets import files_in, numbers_in

from mdstorm_backend import dataframe_to_mds, errors, materialize, open_dataset


def test_rows_are_in_partition_order_and_empty_partitions_have_no_shards(
    spark: Any, target: Path
) -> None:
    df = spark.range(0, 40, 1, 10).where("id NOT BETWEEN 4 AND 11 AND id < 33")
    dataset = materialize(df, str(target))
    assert numbers_in(target, "id") == [*range(4), *range(12, 33)]
    assert [shard.samples for shard in dataset.index.shards] == [4, 4, 4, 4, 4, 4, 1]


def test_empty_frame_becomes_a_dataset_without_samples(spark: Any, target: Path) -> None:
    df = spark.range(0).selectExpr("id", "array(id) AS a", "named_struct('b', id) AS s")
    dataset = materialize(df, str(target))
    assert (len(dataset), dataset.index.shards) == (0, ())
    assert dataset.schema.names == ("id", "a", "s")
    with pytest.warns(UserWarning, match="No matching data is available"):
        table = dataset.to_table()
    assert table.num_rows == 0
    assert table.schema.field("s").type == pa.struct([("b", pa.int64())])


def test_shards_have_the_given_size_limit_and_compression(spark: Any, target: Path) -> None:
    options: dict[str, Any] = {"compression": "zstd:1", "shard_size": 5000}
    dataset = materialize(spark.range(0, 100, 1, 1), str(target), **options)
    (shard,) = dataset.index.shards
    assert (shard.compression, shard.size_limit) == ("zstd:1", 5000)
    assert shard.zip_data is not None
    assert shard.zip_data.basename.endswith(".mds.zstd")
    names = {path.name for path in target.iterdir()}
    assert names == {"_mdstorm", "index.json", shard.zip_data.basename}
    assert numbers_in(target, "id") == list(range(100))


@pytest.mark.parametrize("by_partition", [False, True])
def test_one_spark_job_writes_the_whole_dataset(
    classic_spark: Any, target: Path, by_partition: bool
) -> None:
    context = classic_spark.sparkContext
    context.setJobGroup(f"one job {by_partition}", "one job")
    df = classic_spark.range(0, 10, 1, 5)
    if by_partition:
        dataframe_to_mds(df, mds_kwargs={"out": str(target)})
    else:
        materialize(df, str(target))
    assert len(context.statusTracker().getJobIdsForGroup(f"one job {by_partition}")) == 1


def test_overwrite_keeps_the_old_dataset_until_the_new_one_is_complete(
    spark: Any, target: Path
) -> None:
    materialize(spark.range(3), str(target))
    with pytest.raises(errors.DatasetExistsError, match="already holds a dataset"):
        materialize(spark.range(5), str(target))
    assert numbers_in(target, "id") == [0, 1, 2]
    before = set(target.glob("*.mds"))
    fails = spark.range(5).selectExpr("assert_true(id < 4, 'no such value') IS NULL AS a")
    with pytest.raises(Exception, match="no such value"):
        materialize(fails, str(target), overwrite=True)
    assert numbers_in(target, "id") == [0, 1, 2]
    materialize(spark.range(5), str(target), overwrite=True)
    assert numbers_in(target, "id") == [0, 1, 2, 3, 4]
    assert before.isdisjoint(target.glob("*.mds"))


REFUSED_LITERALS = {
    "void": "NULL",
    "years": "INTERVAL '1' YEAR",
    "nested": "array(INTERVAL '1' MONTH)",
    "inside": "named_struct('a', NULL)",
}


def test_error_lists_all_unsupported_columns_and_nothing_is_written(
    spark: Any, target: Path
) -> None:
    columns = ", ".join(f"{literal} AS {name}" for name, literal in REFUSED_LITERALS.items())
    with pytest.raises(errors.UnsupportedTypeError) as caught:
        materialize(spark.sql(f"SELECT 1 AS fine, {columns}"), str(target))
    assert list(caught.value.columns) == list(REFUSED_LITERALS)
    assert not target.exists()


@pytest.mark.parametrize(
    "literal", ["parse_json('1')", "make_interval(1)", "TIME'10:00:00'"], ids=lambda s: s[:10]
)
def test_spark_4_types_raise_error(frame: Any, target: Path, literal: str) -> None:
    pytest.importorskip("pyspark", "4.1", reason="older PySpark versions cannot describe the type")
    with pytest.raises(errors.UnsupportedTypeError, match="'v'"):
        materialize(frame(literal), str(target))
    assert not target.exists()


def test_unsupported_column_raises_error_before_any_job_starts(
    classic_spark: Any, target: Path
) -> None:
    context = classic_spark.sparkContext
    context.setJobGroup("refused", "refused")
    with pytest.raises(errors.UnsupportedTypeError):
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
def test_invalid_arguments_raise_error_before_anything_is_written(
    spark: Any, target: Path, expressions: list[str], options: dict[str, Any], message: str
) -> None:
    df = spark.range(3).selectExpr(*expressions)
    with pytest.raises(errors.InvalidArgumentError, match=message) as caught:
        materialize(df, str(target), **options)
    assert "hush" not in str(caught.value)
    assert not target.exists()


@of_values
def test_each_partition_becomes_a_dataset_and_the_root_index_joins_all_partitions(
    spark: Any, target: Path
) -> None:
    arguments = {"out": str(target), "hashes": ["md5"], "size_limit": "2kb"}
    before = dict(arguments)
    df = spark.range(0, 1000, 1, 12).where("id < 400 OR id > 500")
    assert dataframe_to_mds(df, mds_kwargs=arguments) == (str(target), "")
    assert arguments == before
    expected = [*range(400), *range(501, 1000)]
    assert numbers_in(target, "id") == expected
    partitions = sorted(path.name for path in target.iterdir() if path.is_dir())
    assert partitions == [f"{i:05}" for i in range(12) if i != 5]
    assert [v for name in partitions for v in numbers_in(target / name, "id")] == expected
    shards = json.loads((target / "index.json").read_text())["shards"]
    assert {shard["compression"] for shard in shards} == {"zstd"}
    assert {shard["size_limit"] for shard in shards} == {2048}
    assert all(shard["raw_data"]["hashes"] for shard in shards)
    assert len(files_in(target)) == len(shards) + 11 + 1


def test_types_that_mosaicml_streaming_rejects_or_loses_read_back(spark: Any, target: Path) -> None:
    df = spark.sql(
        """
        SELECT CAST(-id AS TINYINT) AS byte, id = 1 AS flag, DATE'2024-02-29' AS day,
            IF(id = 0, NULL, CAST(1.5 AS DECIMAL(5, 2))) AS price, 0.1D AS double,
            IF(id = 0, array(), array(1, NULL)) AS ragged, named_struct('a', id) AS `a.b`
        FROM RANGE(0, 2, 1, 1)
        """
    )
    dataframe_to_mds(df, mds_kwargs={"out": str(target), "compression": None})
    day, price = date(2024, 2, 29), Decimal("1.50")
    names = ("byte", "flag", "day", "price", "double", "ragged", "a.b")
    assert open_dataset(str(target)).to_table().to_pylist() == [
        dict(zip(names, (0, False, day, None, 0.1, [], {"a": 0}), strict=True)),
        dict(zip(names, (-1, True, day, price, 0.1, [1, None], {"a": 1}), strict=True)),
    ]
    (shard,) = json.loads((target / "index.json").read_text())["shards"]
    assert shard["compression"] is None
    encodings = dict(zip(shard["column_names"], shard["column_encodings"], strict=True))
    assert (encodings["byte"], encodings["double"]) == ("int8", "float64")


def test_columns_argument_selects_columns_and_encodings(spark: Any, target: Path) -> None:
    df = spark.sql(
        "SELECT id, array(id, id) AS a, CAST('x' AS BINARY) AS image, named_struct('k', id) AS s, "
        "DATE'2024-02-29' AS day, NULL AS void FROM RANGE(0, 3, 1, 1)"
    )
    columns = {"id": "int", "a": "ndarray:int64:2", "image": "jpeg", "s": "json", "day": "str"}
    dataframe_to_mds(df, mds_kwargs={"out": str(target), "columns": columns})
    (shard,) = json.loads((target / "index.json").read_text())["shards"]
    assert dict(zip(shard["column_names"], shard["column_encodings"], strict=True)) == columns
    table = open_dataset(str(target)).to_table(columns=["id", "a", "day"])
    assert table.to_pylist()[1] == {"id": 1, "a": [1, 1], "day": "2024-02-29"}


def test_samples_yielded_by_udf_iterable_are_written(spark: Any, target: Path) -> None:
    def pairs(frame: Any, first: int = 0) -> Iterator[dict[str, Any]]:
        for value in frame["a.b"]:
            yield {"n": int(value) + first, "array": np.array([value], "int16")}
            yield {"n": -1, "array": np.array([], "int16")}

    df = spark.range(0, 6, 1, 3).selectExpr("id AS `a.b`")
    result = dataframe_to_mds(
        df,
        merge_index=False,
        mds_kwargs={"out": str(target), "columns": {"n": "int", "array": "ndarray:int16"}},
        udf_iterable=pairs,
        udf_kwargs={"first": 10},
    )
    assert result == (str(target), "")
    assert not (target / "index.json").exists()
    assert numbers_in(target / "00001", "n") == [12, -1, 13, -1]
    assert numbers_in(target / "00001", "array") == [[2], [], [3], []]


def test_local_directory_of_a_pair_is_kept_only_with_keep_local(spark: Any, tmp_path: Path) -> None:
    for keep_local in (True, False):
        local, remote = tmp_path / f"local-{keep_local}", tmp_path / f"remote-{keep_local}"
        out = (str(local), str(remote))
        result = dataframe_to_mds(spark.range(5), mds_kwargs={"out": out, "keep_local": keep_local})
        assert result == out
        assert numbers_in(remote, "id") == list(range(5))
        assert local.exists() == keep_local
        if keep_local:
            assert files_in(local) == files_in(remote)


def test_dataset_is_replaced_only_on_request(spark: Any, target: Path) -> None:
    dataframe_to_mds(spark.range(5), mds_kwargs={"out": str(target)})
    with pytest.raises(errors.DatasetExistsError, match="Directory is not empty"):
        dataframe_to_mds(spark.range(3), mds_kwargs={"out": str(target)})
    assert numbers_in(target, "id") == list(range(5))
    dataframe_to_mds(spark.range(3), mds_kwargs={"out": str(target), "exist_ok": True})
    assert numbers_in(target, "id") == list(range(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outt": 1}, r"argument \['outt'\]"), ({"columns": {"x": "int"}}, "'x' is not a column"),
        ({"columns": {"id": "str"}}, "Mismatched"), ({"columns": {"id": "no"}}, "unknown"),
        ({"compression": "lzo"}, "'lzo' is unknown"), ({"hashes": ["crc"]}, "'crc' is unknown"),
        ({"size_limit": "huge"}, "is not a size"), ({"max_workers": 0}, "max_workers must be"),
        ({"storage_options": {"secret": "hush"}}, "their own credentials"),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_arguments_for_a_dataset_per_partition_raise_error(
    spark: Any, target: Path, options: dict[str, Any], message: str
) -> None:
    of_types = message == "unknown"
    kind = errors.UnsupportedTypeError if of_types else errors.InvalidArgumentError
    with pytest.raises(kind, match=message):
        dataframe_to_mds(spark.range(3), mds_kwargs={"out": str(target), **options})
    assert not target.exists()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"dataframe": [1]},
            errors.ArgumentTypeError,
            "must be .* list: .*createDataFrame",
        ),
        ({"mds_kwargs": [1]}, errors.ArgumentTypeError, "arguments of MDSWriter, must be a dict"),
        ({"mds_kwargs": None}, errors.InvalidArgumentError, "`out` and `columns` need to be"),
        (
            {"udf_iterable": list},
            errors.InvalidArgumentError,
            "udf_iterable does not declare",
        ),
    ],
)
def test_non_frame_value_or_missing_arguments_raise_error(
    spark: Any, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    usual = {"dataframe": spark.range(1), "mds_kwargs": {"out": "never"}}
    with pytest.raises(kind, match=message):
        dataframe_to_mds(**{**usual, **options})
