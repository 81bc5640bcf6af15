"""`petastorm.spark`, from a DataFrame to batches. These programs need Spark."""

import functools
from typing import Any

import numpy as np
from petastorm import TransformSpec
from petastorm.predicates import in_lambda
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm.spark import spark_dataset_converter as module
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place

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


def torch_batches_have_32_rows(place: Place, spark: Any) -> Any:
    with _converter(spark, 40).make_torch_dataloader(**_CALM) as loader:
        return [len(batch["id"]) for batch in loader]


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


def custom_loader_functions(place: Place, spark: Any) -> Any:
    from petastorm.pytorch import BatchedDataLoader, DataLoader

    def collate(rows: list[dict[str, Any]]) -> int:
        return sum(int(row["id"]) for row in rows)

    converter, found = _converter(spark), []
    for make in (BatchedDataLoader, functools.partial(DataLoader, collate_fn=collate)):
        with converter.make_torch_dataloader(batch_size=4, data_loader_fn=make, **_CALM) as loader:
            found.append(list(loader))
    return found


def a_wrong_dtype(place: Place, spark: Any) -> Any:
    return error_of(lambda: _converter(spark, dtype="float16"), "dtype float16 is not supported")


def vectors(place: Place, spark: Any) -> Any:
    from pyspark.ml.linalg import Vectors

    rows = [(0, Vectors.dense(1.0, 2.0)), (1, Vectors.sparse(2, [1], [3.0]))]
    frame = spark.createDataFrame(rows, ["id", "v"]).coalesce(1)
    with make_spark_converter(frame).make_torch_dataloader(**_CALM) as loader:
        return [batch["v"] for batch in loader]


def an_empty_frame(place: Place, spark: Any) -> Any:
    converter = make_spark_converter(spark.range(0).coalesce(1))
    with converter.make_torch_dataloader(**_CALM) as loader:
        return [len(converter), list(loader)]


def a_converter_of_a_worker(place: Place, spark: Any) -> Any:
    """Converters are pickled, sent to Spark workers and read there."""
    converter = _converter(spark)

    def read(batches: Any) -> Any:
        import pandas as pd

        for _ in batches:
            with converter.make_torch_dataloader(batch_size=4, **_CALM) as loader:
                yield pd.DataFrame({"n": [len(batch["id"]) for batch in loader]})

    found = spark.range(1).coalesce(1).mapInPandas(read, "n int").collect()
    return [row.n for row in found]
