"""Spark DataFrames as MDS."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from streaming import StreamingDataset
from streaming.base.converters import dataframe_to_mds, infer_dataframe_schema


def _frame(spark: Any) -> Any:
    rows = [(i, f"row {i}", i / 4, Decimal(i) / 8) for i in range(12)]
    return spark.createDataFrame(rows, "id long, text string, x double, price decimal(10,3)")


def _rows(folder: Path) -> Any:
    dataset = StreamingDataset(local=str(folder), batch_size=1)
    rows = sorted(dataset, key=lambda sample: sample["id"])
    return [dict(sorted(row.items())) for row in rows]


def a_frame(folder: Path, spark: Any) -> Any:
    columns = {"id": "int64", "text": "str", "x": "float64", "price": "str_decimal"}
    kwargs = {"out": str(folder / "data"), "columns": columns}
    local, remote = dataframe_to_mds(_frame(spark).repartition(2), mds_kwargs=kwargs)
    return [local == str(folder / "data"), remote, _rows(folder / "data")]


def columns_found_by_themselves(folder: Path, spark: Any) -> Any:
    frame = _frame(spark).select("id", "text", "x")
    dataframe_to_mds(frame, mds_kwargs={"out": str(folder / "data")})
    return [infer_dataframe_schema(frame), _rows(folder / "data")[:2]]


def without_a_merged_index(folder: Path, spark: Any) -> Any:
    kwargs = {"out": str(folder / "data"), "columns": {"id": "int64"}}
    dataframe_to_mds(_frame(spark).repartition(3), merge_index=False, mds_kwargs=kwargs)
    indexes = sorted((folder / "data").glob("*/index.json"))
    samples = sum(s["samples"] for path in indexes for s in json.loads(path.read_text())["shards"])
    return [len(indexes), (folder / "data" / "index.json").exists(), samples]


def _tokenized(frame: Any, factor: int = 1) -> Iterator[dict[str, Any]]:
    for row in frame.itertuples():
        tokens = np.asarray([ord(letter) * factor for letter in row.text], np.int64)
        yield {"id": row.id, "tokens": tokens.tobytes()}


def preprocessed_by_a_function(folder: Path, spark: Any) -> Any:
    kwargs = {
        "out": str(folder / "data"),
        "columns": {"id": "int64", "tokens": "bytes"},
        "compression": "zstd:2",
        "hashes": ["sha1"],
    }
    dataframe_to_mds(
        _frame(spark).repartition(2),
        merge_index=True,
        mds_kwargs=kwargs,
        udf_iterable=_tokenized,
        udf_kwargs={"factor": 2},
    )
    return [np.frombuffer(s["tokens"], np.int64)[:3] for s in _rows(folder / "data")[-2:]]


def what_is_refused(folder: Path, spark: Any) -> Any:
    frame, found = _frame(spark), []
    for number, kwargs in enumerate(
        [
            {},
            {"columns": {"id": "int64"}},
            {"out": str(folder / "a"), "columns": {"nothing": "int64"}},
            {"out": str(folder / "b"), "columns": {"text": "int64"}},
        ]
    ):
        try:
            dataframe_to_mds(frame, mds_kwargs=kwargs)
        except ValueError:
            found.append(number)
    return found
