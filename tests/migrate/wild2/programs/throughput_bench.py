#!/usr/bin/env python3
"""How fast? petastorm-throughput.py wrapped for our CI"""
import argparse
import dataclasses
import json

import numpy as np
from pyspark.sql.types import LongType
from petastorm.benchmark.throughput import reader_throughput, WorkerPoolType, ReadMethod
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row

B = Unischema('B', [UnischemaField('id', np.int64, (), ScalarCodec(LongType()), False)])


def main(spark, directory):
    url = 'file://' + directory + '/bench'
    with materialize_dataset(spark, url, B, 1):
        spark.createDataFrame([dict_to_spark_row(B, {'id': i}) for i in range(64)], B.as_spark_schema()).coalesce(2).write.parquet(url)
    result = reader_throughput(url, ['id'], warmup_cycles_count=5, measure_cycles_count=20,
                               pool_type=WorkerPoolType.THREAD, loaders_count=2, read_method=ReadMethod.PYTHON,
                               spawn_new_process=False)
    return [sorted(result._fields), result.samples_per_second > 0, str(WorkerPoolType.THREAD), str(ReadMethod.TF)]
