"""Parquet files written in `materialize_dataset` blocks, their metadata files and readers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from petastorm.codecs import NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.etl.rowgroup_indexers import FieldNotNullIndexer, SingleFieldIndexer
from petastorm.etl.rowgroup_indexing import build_rowgroup_index
from petastorm.selectors import IntersectIndexSelector, SingleIndexSelector, UnionIndexSelector
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql import types as T  # noqa: N812
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import rows

_SCHEMA = Unischema(
    "Steps",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(T.LongType()), False),
        UnischemaField("word", np.str_, (), ScalarCodec(T.StringType()), True),
        UnischemaField("vector", np.float32, (2,), NdarrayCodec(), False),
    ],
)
_KEYS = {
    b"dataset-toolkit.unischema.v1",
    b"dataset-toolkit.num_row_groups_per_file.v1",
    b"dataset-toolkit.rowgroups_index.v1",
}


def _frame(spark: Any, ids: range) -> Any:
    found = [
        dict_to_spark_row(
            _SCHEMA,
            {
                "id": i,
                "word": None if i < 4 else f"word {i % 2}",
                "vector": np.array([i, -i], np.float32),
            },
        )
        for i in ids
    ]
    return spark.createDataFrame(found, _SCHEMA.as_spark_schema()).coalesce(1)


def _append(place: Place, spark: Any, *blocks: range, **arguments: Any) -> str:
    """Write a file for each range of ids, each in a separate `materialize_dataset` block."""
    url = place.url("steps")
    for ids in blocks:
        with materialize_dataset(spark, url, _SCHEMA, **arguments):
            _frame(spark, ids).write.mode("append").parquet(url)
    return url


def _ids(url: str, **arguments: Any) -> list[int]:
    return sorted(int(row.id) for row in rows(url, **arguments))


def _metadata(place: Place, name: str = "steps/_common_metadata") -> Any:
    return pq.read_metadata(place.folder / name)


def _counts(place: Place) -> dict[str, int]:
    found = _metadata(place).metadata[b"dataset-toolkit.num_row_groups_per_file.v1"]
    counts: dict[str, int] = json.loads(found)
    return counts


def spark_reads_the_files(place: Place, spark: Any) -> Any:
    frame = spark.read.parquet(_append(place, spark, range(4)))
    found = sorted((row.id, row.word, len(row.vector)) for row in frame.collect())
    return [frame.schema.simpleString(), [list(row) for row in found]]


def two_blocks_append(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(4), range(4, 6))
    return [_ids(url), sorted(_counts(place).values()), spark.read.parquet(url).count()]


def partitions(place: Place, spark: Any) -> Any:
    url = place.url("steps")
    with materialize_dataset(spark, url, _SCHEMA):
        frame = _frame(spark, range(4, 8))
        frame.write.mode("overwrite").partitionBy("word").parquet(url)
    folders = sorted(str(Path(name).parent) for name in _counts(place))
    found = sorted(rows(url), key=lambda row: int(row.id))
    return [folders, [[int(row.id), str(row.word)] for row in found], list(found[0]._fields)]


def selectors_choose_files(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(3), range(3, 6), range(6, 8))
    indexers = [
        SingleFieldIndexer("ids", "id"),
        SingleFieldIndexer("words", "word"),
        FieldNotNullIndexer("any_word", "word"),
    ]
    build_rowgroup_index(url, spark.sparkContext, indexers)
    four, seven = SingleIndexSelector("ids", [4]), SingleIndexSelector("ids", [7])
    word = SingleIndexSelector("words", ["word 1"])
    return [
        _ids(url, rowgroup_selector=four),
        _ids(url, rowgroup_selector=UnionIndexSelector([four, seven])),
        _ids(url, rowgroup_selector=IntersectIndexSelector([word, seven])),
        _ids(url, rowgroup_selector=SingleIndexSelector("any_word", [None])),
        sorted(key.decode() for key in _metadata(place).metadata if key in _KEYS),
    ]
