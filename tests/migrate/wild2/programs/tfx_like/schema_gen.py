from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm.codecs import ScalarCodec, CompressedNdarrayCodec
import petastorm.etl.dataset_metadata as petastorm_md
from pyspark.sql.types import LongType
import numpy as np

ExampleSchema = Unischema('ExampleSchema', [
    UnischemaField('key', np.int64, (), ScalarCodec(LongType()), False),
    UnischemaField('value', np.float64, (2, 2), CompressedNdarrayCodec(), False)])


def materialize(spark, url):
    with petastorm_md.materialize_dataset(spark, url, ExampleSchema, 4):
        rows = (dict_to_spark_row(ExampleSchema, {'key': k, 'value': np.eye(2) * k}) for k in range(8))
        spark.createDataFrame(list(rows), ExampleSchema.as_spark_schema()).repartition(2).write.parquet(url)
