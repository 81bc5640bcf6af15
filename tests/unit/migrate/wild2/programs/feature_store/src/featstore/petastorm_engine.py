import numpy as np

import petastorm as _petastorm
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import dict_to_spark_row

from .engines import engine, EngineName


@engine(EngineName.PETASTORM)
class PetastormEngine:
    version = _petastorm.__version__

    def __init__(self, spark):
        self.spark = spark

    def write(self, url, schema, dicts):
        def conv(d):
            return {k: np.asarray(v, schema.fields[k].numpy_dtype) if isinstance(v, list) else v for k, v in d.items()}
        with materialize_dataset(self.spark, url, schema, 1):
            rows = [dict_to_spark_row(schema, conv(d)) for d in dicts]
            self.spark.createDataFrame(rows, schema.as_spark_schema()).coalesce(1).write.mode('overwrite').parquet(url)

    def read(self, url, columns):
        with _petastorm.make_reader(url, schema_fields=['^%s$' % c for c in columns], reader_pool_type='dummy') as r:
            return sorted([np.asarray(getattr(row, c)).tolist() for c in columns] for row in r)


@engine('memory')
class MemoryEngine(PetastormEngine):
    pass
