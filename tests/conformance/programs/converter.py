"""`petastorm.spark`: from a DataFrame to batches. These need Spark."""

from __future__ import annotations

import functools
import pickle
from itertools import chain, islice
from typing import Any

import numpy as np
from petastorm import TransformSpec
from petastorm.predicates import in_lambda
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm.spark import spark_dataset_converter as module
from tests.conformance.describing import error_of
from tests.conformance.place import Place

_CALM = {"reader_pool_type": "dummy", "shuffle_row_groups": False, "num_epochs": 1}


def _converter(spark: Any, rows: int = 10, **arguments: Any) -> SparkDatasetConverter:
    frame = spark.range(rows).coalesce(1).selectExpr("id", "id / 2 AS half")
    return make_spark_converter(frame, **arguments)


def constants(place: Place) -> Any:
    return [
        SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF,
        module.DEFAULT_ROW_GROUP_SIZE_BYTES,
        callable(module.register_delete_dir_handler),
    ]


def torch_batches(place: Place, spark: Any) -> Any:
    with _converter(spark).make_torch_dataloader(batch_size=4, **_CALM) as loader:
        return list(loader)


def torch_batches_span_epochs(place: Place, spark: Any) -> Any:
    arguments = {**_CALM, "num_epochs": 2}
    with _converter(spark).make_torch_dataloader(batch_size=4, **arguments) as loader:
        return [batch["id"].tolist() for batch in loader]


def torch_batches_have_32_rows(place: Place, spark: Any) -> Any:
    with _converter(spark, 40).make_torch_dataloader(**_CALM) as loader:
        return [len(batch["id"]) for batch in loader]


def torch_loaders_never_end(place: Place, spark: Any) -> Any:
    arguments = {**_CALM, "num_epochs": None}
    with _converter(spark).make_torch_dataloader(batch_size=4, **arguments) as loader:
        return [batch["id"].tolist() for batch in islice(loader, 6)]


def tensorflow_batches(place: Place, spark: Any) -> Any:
    with _converter(spark).make_tf_dataset(batch_size=4, **_CALM) as dataset:
        return list(dataset)


def doubles_stay_doubles_on_request(place: Place, spark: Any) -> Any:
    found = []
    for dtype in ("float64", None, "float32"):
        with _converter(spark, dtype=dtype).make_torch_dataloader(**_CALM) as loader:
            found += [str(batch["half"].dtype) for batch in loader]
    return found


def a_transform(place: Place, spark: Any) -> Any:
    def add(frame: Any) -> Any:
        frame["v"] = [np.array([i, -i], np.float32) for i in frame["id"]]
        return frame

    spec = TransformSpec(add, edit_fields=[("v", np.float32, (2,), False)], removed_fields=["half"])
    converter = _converter(spark, 4)
    with converter.make_torch_dataloader(transform_spec=spec, **_CALM) as loader:
        found = list(loader)
    with converter.make_tf_dataset(transform_spec=spec, **_CALM) as dataset:
        return [found, str(dataset.element_spec.v), list(dataset)]


def a_predicate(place: Place, spark: Any) -> Any:
    predicate = in_lambda(["half"], lambda half: half >= 2)
    with _converter(spark).make_torch_dataloader(predicate=predicate, **_CALM) as loader:
        return [batch["half"].tolist() for batch in loader]


def chosen_columns(place: Place, spark: Any) -> Any:
    with _converter(spark).make_torch_dataloader(schema_fields=["half"], **_CALM) as loader:
        return list(loader)


def a_loader_of_ones_own(place: Place, spark: Any) -> Any:
    from petastorm.pytorch import BatchedDataLoader, DataLoader

    def collate(rows: list[dict[str, Any]]) -> int:
        return sum(int(row["id"]) for row in rows)

    converter, found = _converter(spark), []
    for make in (BatchedDataLoader, functools.partial(DataLoader, collate_fn=collate)):
        with converter.make_torch_dataloader(batch_size=4, data_loader_fn=make, **_CALM) as loader:
            found.append(list(loader))
    return found


def what_a_loader_function_is_called_with(place: Place, spark: Any) -> Any:
    def make(**arguments: Any) -> Any:
        reader = arguments.pop("reader")
        return [sorted(arguments.items()), reader.batched_output]

    with _converter(spark).make_torch_dataloader(data_loader_fn=make, **_CALM) as loader:
        return loader


def equal_frames_share_a_copy(place: Place, spark: Any) -> Any:
    one, other, third = (spark.range(n) for n in (7, 7, 8))
    urls = [make_spark_converter(frame).cache_dir_url for frame in (one, other, third)]
    return [urls[0] == urls[1], urls[0] == urls[2]]


def converters_pickle(place: Place, spark: Any) -> Any:
    converter = pickle.loads(pickle.dumps(_converter(spark)))  # noqa: S301
    with converter.make_torch_dataloader(batch_size=4, **_CALM) as loader:
        return [len(converter), [batch["id"].tolist() for batch in loader]]


def a_deleted_copy(place: Place, spark: Any) -> Any:
    from pathlib import Path
    from urllib.parse import urlparse

    converter = make_spark_converter(spark.range(3).selectExpr("id AS gone"))
    folder = Path(urlparse(converter.cache_dir_url).path)
    before = folder.exists()
    return [before, converter.delete(), folder.exists(), converter.delete()]


def a_path_instead_of_a_frame(place: Place, spark: Any) -> Any:
    converter = make_spark_converter(place.numbers(5, group=3))
    with converter.make_torch_dataloader(batch_size=4, **_CALM) as loader:
        return [len(converter), list(loader)]


def a_converter_made_by_hand(place: Place) -> Any:
    url = place.numbers(5, group=3)
    converter = SparkDatasetConverter(url, [f"{url}/part-0.parquet"], 5)
    with converter.make_torch_dataloader(batch_size=4, **_CALM) as loader:
        return [len(converter), list(loader)]


def a_wrong_codec(place: Place, spark: Any) -> Any:
    return error_of(
        lambda: _converter(spark, compression_codec="zstd"),
        "compression_codec should be None or one of the following values",
    )


def a_wrong_dtype(place: Place, spark: Any) -> Any:
    return error_of(lambda: _converter(spark, dtype="float16"), "dtype float16 is not supported")


def something_else_than_a_frame(place: Place, spark: Any) -> Any:
    return error_of(lambda: make_spark_converter(None), "has no attribute '_jdf'")


def unknown_arguments(place: Place, spark: Any) -> Any:
    def enter(**arguments: Any) -> None:
        with _converter(spark).make_torch_dataloader(**arguments):
            pass

    return error_of(lambda: enter(xyz=1), "got an unexpected keyword argument 'xyz'")


def tensorflow_types(place: Place, spark: Any) -> Any:
    frame = (
        spark.range(2)
        .coalesce(1)
        .selectExpr(
            "CAST(id AS BOOLEAN) AS flag",
            "CAST(id AS SMALLINT) AS short",
            "CONCAT('#', id) AS text",
            "CAST(CONCAT('#', id) AS BINARY) AS raw",
            "DATE_ADD(DATE'2020-01-01', CAST(id AS INT)) AS day",
            "TIMESTAMP'2020-01-01 12:00:00Z' AS time",
            "ARRAY(CAST(id AS DOUBLE), 0.5D) AS vector",
        )
    )
    with make_spark_converter(frame).make_tf_dataset(**_CALM) as dataset:
        return list(dataset)


def torch_types(place: Place, spark: Any) -> Any:
    frame = (
        spark.range(2)
        .coalesce(1)
        .selectExpr(
            "CAST(id AS BOOLEAN) AS flag",
            "CAST(id AS TINYINT) AS tiny",
            "CAST(id AS INT) AS whole",
            "IF(id = 0, NULL, id) AS gap",
            "CAST(id AS FLOAT) AS float",
            "ARRAY(id, id + 1) AS pair",
            "ARRAY(CAST(id AS DOUBLE), 0.5D) AS vector",
        )
    )
    with make_spark_converter(frame).make_torch_dataloader(**_CALM) as loader:
        return list(loader)


def vectors(place: Place, spark: Any) -> Any:
    from pyspark.ml.linalg import Vectors

    rows = [(0, Vectors.dense(1.0, 2.0)), (1, Vectors.sparse(2, [1], [3.0]))]
    frame = spark.createDataFrame(rows, ["id", "v"]).coalesce(1)
    with make_spark_converter(frame).make_torch_dataloader(**_CALM) as loader:
        return [batch["v"] for batch in loader]


def nested_columns_are_left_out(place: Place, spark: Any) -> Any:
    frame = spark.range(1).selectExpr("id", "STRUCT(id AS a) AS s", "MAP('k', id) AS m")
    with make_spark_converter(frame).make_torch_dataloader(**_CALM) as loader:
        return list(loader)


def shards_share_the_rows(place: Place, spark: Any) -> Any:
    converter = make_spark_converter(spark.range(8).repartition(4))
    found = []
    for shard in range(2):
        with converter.make_torch_dataloader(cur_shard=shard, shard_count=2, **_CALM) as loader:
            found += [batch["id"].tolist() for batch in loader]
    return sorted(chain.from_iterable(found))


def an_empty_frame(place: Place, spark: Any) -> Any:
    converter = make_spark_converter(spark.range(0).coalesce(1))
    with converter.make_torch_dataloader(**_CALM) as loader:
        return [len(converter), list(loader)]


def a_converter_of_a_worker(place: Place, spark: Any) -> Any:
    """Converters travel to Spark's workers and are read there."""
    converter = _converter(spark)

    def read(batches: Any) -> Any:
        import pandas as pd

        for _ in batches:
            with converter.make_torch_dataloader(batch_size=4, **_CALM) as loader:
                yield pd.DataFrame({"n": [len(batch["id"]) for batch in loader]})

    found = spark.range(1).coalesce(1).mapInPandas(read, "n int").collect()
    return [row.n for row in found]


def a_handler_for_deletion(place: Place, spark: Any) -> Any:
    converter, deleted = make_spark_converter(spark.range(3).selectExpr("id AS mine")), []
    module.register_delete_dir_handler(deleted.append)
    try:
        converter.delete()
    finally:
        module.register_delete_dir_handler(None)
    converter.delete()
    return deleted == [converter.cache_dir_url]
