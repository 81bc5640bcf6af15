"""A transform with edited and selected columns, in a loader that a function makes."""
from functools import partial

import numpy as np
from petastorm import TransformSpec
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def shrink(frame, size):
    frame["img"] = frame["raw"].map(lambda raw: np.frombuffer(raw, np.uint8).astype(np.float32)[:size])
    return frame.drop(columns=["raw"])


def batches(converter: SparkDatasetConverter, spec):
    with converter.make_torch_dataloader(batch_size=5, num_epochs=2, transform_spec=spec,
                                         shuffle_row_groups=False, reader_pool_type="dummy") as loader:
        return [[sorted(batch), str(batch["img"].dtype), list(batch["img"].shape), int(batch["label"].sum())]
                for batch in loader]


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    df = spark.range(10).selectExpr("encode(concat('pictures', id), 'utf-8') AS raw", "id AS label").coalesce(1)
    spec = TransformSpec(partial(shrink, size=6),
                         edit_fields=[("img", np.float32, (2, 3), False)],
                         selected_fields=["img", "label"])
    converter = make_spark_converter(df)
    return batches(converter, spec)
