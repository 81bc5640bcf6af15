"""A DataFrame becomes a directory of datasets; classic and Connect sessions alike."""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.small_datasets import files_in, numbers_in

from mdstorm_backend import dataframe_to_mds, open_dataset
from mdstorm_backend.errors import (
    ArgumentTypeError,
    DatasetExistsError,
    InvalidArgumentError,
    UnsupportedTypeError,
)


def test_every_partition_is_a_dataset_and_all_of_them_are_one(spark: Any, target: Path) -> None:
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


def test_types_that_mosaic_refuses_or_loses_are_kept(spark: Any, target: Path) -> None:
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


def test_columns_choose_what_is_stored_and_how(spark: Any, target: Path) -> None:
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


def test_a_function_makes_the_samples(spark: Any, target: Path) -> None:
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


def test_a_pair_gets_the_dataset_and_a_copy_on_request(spark: Any, tmp_path: Path) -> None:
    for keep_local in (True, False):
        local, remote = tmp_path / f"local-{keep_local}", tmp_path / f"remote-{keep_local}"
        out = (str(local), str(remote))
        result = dataframe_to_mds(spark.range(5), mds_kwargs={"out": out, "keep_local": keep_local})
        assert result == out
        assert numbers_in(remote, "id") == list(range(5))
        assert local.exists() == keep_local
        if keep_local:
            assert files_in(local) == files_in(remote)


def test_a_dataset_is_replaced_only_on_request(spark: Any, target: Path) -> None:
    dataframe_to_mds(spark.range(5), mds_kwargs={"out": str(target)})
    with pytest.raises(DatasetExistsError, match="Directory is not empty"):
        dataframe_to_mds(spark.range(3), mds_kwargs={"out": str(target)})
    assert numbers_in(target, "id") == list(range(5))
    dataframe_to_mds(spark.range(3), mds_kwargs={"out": str(target), "exist_ok": True})
    assert numbers_in(target, "id") == list(range(3))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"mds_kwargs": None}, InvalidArgumentError, "`out` and `columns` need to be specified"),
        ({"udf_iterable": list}, InvalidArgumentError, "with udf_iterable nothing else says"),
        ({"mds_kwargs": {"outt": 1}}, InvalidArgumentError, r"argument \['outt'\]"),
        ({"mds_kwargs": {"columns": {"x": "int"}}}, InvalidArgumentError, "'x' is not a column"),
        ({"mds_kwargs": {"columns": {"id": "str"}}}, InvalidArgumentError, "Mismatched types"),
        ({"mds_kwargs": {"columns": {"id": "no"}}}, UnsupportedTypeError, "is unsupported"),
        ({"mds_kwargs": {"compression": "lzo"}}, InvalidArgumentError, "'lzo' is unknown"),
        ({"mds_kwargs": {"hashes": ["crc"]}}, InvalidArgumentError, "'crc' is unknown"),
        ({"mds_kwargs": {"size_limit": "huge"}}, InvalidArgumentError, "is not a size"),
        ({"mds_kwargs": {"max_workers": 0}}, InvalidArgumentError, "max_workers must be"),
        (
            {"mds_kwargs": {"storage_options": {"secret": "hush"}}},
            InvalidArgumentError,
            "their own credentials",
        ),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_and_nothing_is_written(
    spark: Any, target: Path, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    options = {"mds_kwargs": {}, **arguments}
    if options["mds_kwargs"] is not None:
        options["mds_kwargs"] = {"out": str(target), **options["mds_kwargs"]}
    with pytest.raises(kind, match=message):
        dataframe_to_mds(spark.range(3), **options)
    assert not target.exists()


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ([1], {"out": "never"}, "must be a Spark DataFrame, found list: .*createDataFrame"),
        (None, [1], "the arguments of MDSWriter, must be a dict, found"),
    ],
)
def test_what_is_no_frame_or_no_dict_is_refused(
    spark: Any, frame: Any, options: Any, message: str
) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        dataframe_to_mds(frame or spark.range(1), mds_kwargs=options)


def test_one_job_writes_everything(classic_spark: Any, target: Path) -> None:
    context = classic_spark.sparkContext
    context.setJobGroup("dataframe_to_mds", "dataframe_to_mds")
    dataframe_to_mds(classic_spark.range(0, 10, 1, 2), mds_kwargs={"out": str(target)})
    assert len(context.statusTracker().getJobIdsForGroup("dataframe_to_mds")) == 1
