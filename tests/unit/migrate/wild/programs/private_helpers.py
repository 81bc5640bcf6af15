from petastorm.pytorch import _sanitize_pytorch_types, decimal_friendly_collate
from petastorm.spark.spark_dataset_converter import _convert_vector
from petastorm.unischema import _numpy_to_spark_mapping
from petastorm import make_batch_reader
import numpy as np


def main(spark, directory):
    row = {"a": np.array([True, False]), "b": np.array([1, 2], dtype=np.uint16)}
    _sanitize_pytorch_types(row)
    spark.range(0, 2, 1, 1).write.parquet(directory + "/t")
    with make_batch_reader("file://" + directory + "/t") as r:
        n = sum(len(b.id) for b in r)
    return {"a": str(row["a"].dtype), "b": str(row["b"].dtype), "n": n, "map": len(_numpy_to_spark_mapping()) > 3,
            "vector": callable(_convert_vector)}
