import numpy as np
from petastorm import make_reader
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm.weighted_sampling_reader import WeightedSamplingReader
from pyspark.sql.types import IntegerType

Mix = Unischema('Mix', [UnischemaField('source', np.int32, (), ScalarCodec(IntegerType()), False)])


def write(spark, url, i):
    with materialize_dataset(spark, url, Mix):
        spark.createDataFrame([dict_to_spark_row(Mix, {'source': i})] * 4, Mix.as_spark_schema()).write.parquet(url)


def main(spark, directory):
    urls = ['file://%s/mix%d' % (directory, i) for i in range(2)]
    for i, url in enumerate(urls):
        write(spark, url, i)
    readers = [make_reader(u, num_epochs=None, workers_count=1) for u in urls]
    try:
        mixed = WeightedSamplingReader(readers, [1.0, 0.0])
    except Exception as e:      # np.float is gone in new NumPy
        for r in readers:
            r.stop(); r.join()
        return 'unusable: %s' % type(e).__name__
    with mixed as r:
        return [int(next(r).source) for _ in range(5)]
