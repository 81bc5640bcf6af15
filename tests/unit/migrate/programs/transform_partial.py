"""A transform made with `functools.partial`, with edited and selected columns."""
from functools import partial

import numpy as np
from petastorm import TransformSpec
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def shrink(frame, size):
    frame["img"] = frame["raw"].map(lambda raw: np.frombuffer(raw, np.uint8).astype(np.float32)[:size])
    return frame.drop(columns=["raw"])


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    df = spark.range(12).selectExpr("encode(concat('pictures', id), 'utf-8') AS raw", "id AS label")
    spec = TransformSpec(partial(shrink, size=6),
                         edit_fields=[("img", np.float32, (6,), False)],
                         selected_fields=["img", "label"])
    conv = make_spark_converter(df)
    with conv.make_torch_dataloader(batch_size=5, num_epochs=1, transform_spec=spec,
                                    shuffle_row_groups=False) as loader:
        return [[list(batch), list(batch["img"].shape), float(batch["img"].sum())] for batch in loader]
