"""A dataset of arrays that is written row by row and read as rows, tensors and Spark rows."""
import numpy as np
from petastorm.codecs import CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.reader import make_reader
from petastorm.tf_utils import make_petastorm_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import IntegerType

Leaf = Unischema("Leaf", [
    UnischemaField("id", np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField("vein", np.uint8, (4, 4), NdarrayCodec(), False),
    UnischemaField("scan", np.float32, (None, 3), CompressedNdarrayCodec(), True),
])


def leaf(number):
    scan = None if number == 2 else np.full((number + 1, 3), number, np.float32)
    return {"id": number, "vein": np.full((4, 4), number, np.uint8), "scan": scan}


def main(spark, directory):
    url = "file://" + directory + "/leaves"
    with materialize_dataset(spark, url, Leaf, 16):
        rows = [dict_to_spark_row(Leaf, leaf(i)) for i in range(6)]
        spark.createDataFrame(rows, Leaf.as_spark_schema()).coalesce(1).write.mode("overwrite").parquet(url)
    with make_reader(url, num_epochs=1, shuffle_row_groups=False, reader_pool_type="dummy") as reader:
        seen = [[int(row.id), row.vein.shape, None if row.scan is None else list(row.scan.shape)] for row in reader]
    with make_reader(url, schema_fields=["id", "vein"], num_epochs=1, workers_count=1) as reader:
        total = sum(int(row.vein.numpy().sum()) for row in make_petastorm_dataset(reader))
    return [sorted(seen), total]
