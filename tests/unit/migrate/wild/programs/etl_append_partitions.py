import numpy as np
from petastorm.codecs import ScalarCodec, NdarrayCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.predicates import in_lambda, in_reduce, in_set
from petastorm.reader import make_reader
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import LongType, StringType

Frames = Unischema('Frames', [
    UnischemaField('ts', np.int64, (), ScalarCodec(LongType()), False),
    UnischemaField('city', np.str_, (), ScalarCodec(StringType()), False),
    UnischemaField('lidar', np.float32, (3,), NdarrayCodec(), False),
])


def rows(spark, start, city):
    return spark.createDataFrame(
        spark.sparkContext.parallelize(range(start, start + 4), 1).map(
            lambda t: dict_to_spark_row(Frames, {'ts': t, 'city': city,
                                                 'lidar': np.array([t, t, 1], dtype=np.float32)})),
        Frames.as_spark_schema())


def main(spark, directory):
    url = 'file://%s/frames' % directory
    with materialize_dataset(spark, url, Frames):
        rows(spark, 0, 'sf').write.partitionBy('city').parquet(url)
    # second block: another day arrives
    with materialize_dataset(spark, url, Frames):
        rows(spark, 100, 'pit').write.mode('append').partitionBy('city').parquet(url)
    res = {}
    with make_reader(url, num_epochs=1) as r:
        res['all'] = sorted([int(x.ts), str(x.city)] for x in r)
    with make_reader(url, num_epochs=1, predicate=in_set(['pit'], 'city')) as r:
        res['pit'] = sorted(int(x.ts) for x in r)
    with make_reader(url, predicate=in_reduce([in_set(['sf'], 'city'), in_lambda(['ts'], lambda ts: ts % 2 == 0)], all)) as r:
        res['both'] = sorted(float(x.lidar.sum()) for x in r)
    return res
