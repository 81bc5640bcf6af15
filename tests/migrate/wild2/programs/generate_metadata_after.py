"""Data lands as plain parquet (from Hive); the petastorm metadata is added later on."""
import os
import subprocess
import sys

import numpy as np
import pyspark.sql.types as T
from petastorm import make_reader
from petastorm.codecs import ScalarCodec
from petastorm.etl import petastorm_generate_metadata as pgm
from petastorm.etl.dataset_metadata import (PetastormMetadataError, PetastormMetadataGenerationError,
                                            get_schema_from_dataset_url, materialize_dataset)
from petastorm.unischema import Unischema, UnischemaField

LateSchema = Unischema('LateSchema', [
    UnischemaField('id', np.int64, (), ScalarCodec(T.LongType()), False),
    UnischemaField('txt', np.str_, (), ScalarCodec(T.StringType()), True),
])


class NoStop:
    """generate_petastorm_metadata() stops the session, ours is shared"""

    def __init__(self, spark):
        self._spark = spark

    def __getattr__(self, name):
        return getattr(self._spark, name)

    def stop(self):
        pass


def main(spark, directory):
    url = 'file://%s/late' % directory
    spark.createDataFrame([(i, str(i) if i % 2 else None) for i in range(9)], LateSchema.as_spark_schema()).repartition(2).write.parquet(url)
    before = None
    try:
        get_schema_from_dataset_url(url)
    except PetastormMetadataError as e:
        before = 'petastorm-generate-metadata' in str(e) or 'metadata' in str(e)
    sys.modules.setdefault('late_schema_holder', sys.modules[__name__])
    pgm.generate_petastorm_metadata(NoStop(spark), url, 'late_schema_holder.LateSchema', hdfs_driver='libhdfs')
    after = list(get_schema_from_dataset_url(url).fields)
    with make_reader(url) as r:
        rows = sorted((int(x.id), x.txt if x.txt is None else str(x.txt)) for x in r)
    # rows are added without a materialize_dataset block, then metadata is refreshed by an empty one
    spark.createDataFrame([(100, 'z')], LateSchema.as_spark_schema()).write.mode('append').parquet(url)
    with materialize_dataset(spark, url, LateSchema):
        pass
    with make_reader(url, shuffle_row_groups=False) as r:
        n = sum(1 for _ in r)
    return [before, after, rows, n, issubclass(PetastormMetadataGenerationError, Exception), os.path.exists(directory + '/late/_common_metadata')]
