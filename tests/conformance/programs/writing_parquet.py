"""What is beside and in the Parquet files after `materialize_dataset`, and what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from petastorm.codecs import NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url, materialize_dataset
from petastorm.etl.rowgroup_indexers import FieldNotNullIndexer, SingleFieldIndexer
from petastorm.etl.rowgroup_indexing import build_rowgroup_index
from petastorm.ngram import NGram
from petastorm.selectors import IntersectIndexSelector, SingleIndexSelector, UnionIndexSelector
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql import types as T  # noqa: N812
from tests.conformance.describing import error_of
from tests.conformance.place import Place
from tests.conformance.reading import rows

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
    """Write a file in a block for each range of ids."""
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


def what_is_in_the_directory(place: Place, spark: Any) -> Any:
    _append(place, spark, range(4))
    found = [path.name for path in (place.folder / "steps").iterdir()]
    return [
        sorted(name for name in found if not name.startswith((".", "part-"))),
        sum(name.endswith(".parquet") for name in found),
    ]


def what_is_in_the_metadata(place: Place, spark: Any) -> Any:
    _append(place, spark, range(4))
    metadata = _metadata(place)
    described = [(c.name, c.physical_type) for c in map(metadata.schema.column, range(3))]
    keys = sorted(key.decode() for key in metadata.metadata if key in _KEYS)
    return [keys, [list(column) for column in described], metadata.num_rows]


def two_blocks_append(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(4), range(4, 6))
    return [_ids(url), sorted(_counts(place).values()), spark.read.parquet(url).count()]


def a_block_replaces_the_dataset(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(4))
    schema = Unischema("Other", [_SCHEMA.fields["id"]])
    with materialize_dataset(spark, url, schema):
        _frame(spark, range(7, 9)).select("id").write.mode("overwrite").parquet(url)
    stored = get_schema_from_dataset_url(url)
    return [_ids(url), stored._name, list(stored.fields), len(_counts(place))]


def rows_of_another_schema_are_appended(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(4))
    schema = Unischema("Other", [_SCHEMA.fields["id"]])

    def append() -> None:
        with materialize_dataset(spark, url, schema):
            _frame(spark, range(4, 6)).write.mode("append").parquet(url)

    return [error_of(append), list(get_schema_from_dataset_url(url).fields)]


def metadata_that_were_truncated(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(4))
    path = place.folder / "steps" / "_common_metadata"
    path.write_bytes(path.read_bytes()[:-10])

    def renew() -> list[int]:
        with materialize_dataset(spark, url, _SCHEMA):
            pass
        return _ids(url)

    return list(error_of(renew))


def a_summary_from_before(place: Place, spark: Any) -> Any:
    _append(place, spark, range(4), use_summary_metadata=True)
    return _ids(_append(place, spark, range(4, 6)))


def partitions(place: Place, spark: Any) -> Any:
    url = place.url("steps")
    with materialize_dataset(spark, url, _SCHEMA):
        frame = _frame(spark, range(4, 8))
        frame.write.mode("overwrite").partitionBy("word").parquet(url)
    folders = sorted(str(Path(name).parent) for name in _counts(place))
    found = sorted(rows(url), key=lambda row: int(row.id))
    return [folders, [[int(row.id), str(row.word)] for row in found], list(found[0]._fields)]


def n_grams_end_with_their_file(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(3), range(3, 6))
    ngram = NGram(
        {0: [_SCHEMA.fields["id"]], 1: [_SCHEMA.fields["id"]]},
        delta_threshold=1,
        timestamp_field=_SCHEMA.fields["id"],
    )
    return sorted([int(row.id) for row in pair.values()] for pair in rows(url, schema_fields=ngram))


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


def large_rows_make_several_row_groups(place: Place, spark: Any) -> Any:
    schema = Unischema("Big", [UnischemaField("a", np.float64, (2000,), NdarrayCodec(), False)])
    url = place.url("steps")
    generator = np.random.default_rng(0)
    values = [dict_to_spark_row(schema, {"a": generator.random(2000)}) for _ in range(300)]
    with materialize_dataset(spark, url, schema, row_group_size_mb=1):
        frame = spark.createDataFrame(values, schema.as_spark_schema()).coalesce(1)
        frame.write.mode("overwrite").parquet(url)
    (count,) = _counts(place).values()
    (file,) = (place.folder / "steps").glob("*.parquet")
    return [count > 1, count == pq.read_metadata(file).num_row_groups, len(rows(url))]


def a_summary_of_all_files(place: Place, spark: Any) -> Any:
    url = _append(place, spark, range(4), range(4, 6), use_summary_metadata=True)
    return [_metadata(place, "steps/_metadata").num_row_groups, _ids(url)]
