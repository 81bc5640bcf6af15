"""Part 1 of my blog series: feeding PyTorch from Spark."""
import numpy as np
import torch
from torch import nn
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm import TransformSpec


def transform_rows(pd_batch):
    pd_batch["features"] = pd_batch["features"].map(lambda x: np.asarray(x, dtype=np.float32).reshape(2, 2))
    return pd_batch


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory + "/petastorm_cache")
    df = spark.range(0, 20, 1, 1).selectExpr(
        "array(id * 1.0D, id * 2.0D, id * 3.0D, id * 4.0D) as features", "id % 2 as label")
    converter_train = make_spark_converter(df)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    spec = TransformSpec(transform_rows, edit_fields=[("features", np.float32, (2, 2), False)],
                         selected_fields=["features", "label"])
    shapes, labels, total = [], 0, 0.0
    with converter_train.make_torch_dataloader(transform_spec=spec, batch_size=8, num_epochs=1,
                                               reader_pool_type="dummy") as loader:
        for batch in loader:
            out = net(batch["features"])
            shapes.append(list(batch["features"].shape) + list(out.shape))
            labels += int(batch["label"].sum())
            total += float(batch["features"].sum())
    n = len(converter_train)
    converter_train.delete()
    return {"shapes": shapes, "labels": labels, "total": total, "n": n}
