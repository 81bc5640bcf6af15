import numpy as np
from petastorm.codecs import NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.spark_utils import dataset_as_rdd
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import IntegerType

A = Unischema("A", [UnischemaField("id", np.int32, (), ScalarCodec(IntegerType()), False),
                    UnischemaField("v", np.float64, (2,), NdarrayCodec(), False)])


def main(spark, directory):
    url = "file://" + directory + "/a"
    with materialize_dataset(spark, url, A):
        spark.createDataFrame([dict_to_spark_row(A, {"id": i, "v": np.array([i, 1.0])}) for i in range(4)],
                              A.as_spark_schema()).write.parquet(url)
    rdd = dataset_as_rdd(url, spark, [A.id, A.v])
    return sorted(rdd.map(lambda r: [int(r.id), float(r.v.sum())]).collect())
