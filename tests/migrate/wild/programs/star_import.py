from petastorm.unischema import *
from petastorm.codecs import *
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm import make_reader
import numpy as np
from pyspark.sql.types import *

S = Unischema('S', [
    UnischemaField('id', np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField('m', np.float32, (2, 3), NdarrayCodec(), False),
])


def main(spark, directory):
    url = 'file://' + directory + '/s'
    with materialize_dataset(spark, url, S, 1):
        rdd = spark.sparkContext.parallelize(range(5), 1).map(
            lambda i: dict_to_spark_row(S, {'id': i, 'm': np.full((2, 3), i, dtype=np.float32)}))
        spark.createDataFrame(rdd, S.as_spark_schema()).write.parquet(url)
    with make_reader(url, num_epochs=1) as reader:
        return sorted([int(r.id), float(r.m.sum()), list(r.m.shape)] for r in reader)
