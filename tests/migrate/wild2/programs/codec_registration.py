"""Codecs hidden in the package namespace so that the restricted unpickler of petastorm lets them in (our hack)."""
import sys
import types

import numpy as np
import pyspark.sql.types as T

import petastorm
from petastorm.codecs import DataframeColumnCodec, ScalarCodec
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm.etl.dataset_metadata import materialize_dataset


class RleCodec(DataframeColumnCodec):
    def encode(self, unischema_field, value):
        flat = value.ravel()
        edges = np.flatnonzero(np.diff(flat)) + 1
        runs = np.split(flat, edges)
        return bytearray(np.array([[r[0], len(r)] for r in runs], np.int32).tobytes())

    def decode(self, unischema_field, value):
        a = np.frombuffer(value, np.int32).reshape(-1, 2)
        return np.repeat(a[:, 0], a[:, 1]).astype(unischema_field.numpy_dtype)

    def spark_dtype(self):
        return T.BinaryType()

    def __str__(self):
        return 'RleCodec()'


_ext = types.ModuleType('petastorm.ext_codecs')
_ext.RleCodec = RleCodec
RleCodec.__module__ = 'petastorm.ext_codecs'
sys.modules['petastorm.ext_codecs'] = petastorm.ext_codecs = _ext

Mask = Unischema('Mask', [
    UnischemaField('i', np.int64, (), ScalarCodec(T.LongType()), False),
    UnischemaField('mask', np.int32, (None,), RleCodec(), False),
])


def main(spark, directory):
    url = 'file://' + directory + '/mask'
    with materialize_dataset(spark, url, Mask, 1):
        rows = [dict_to_spark_row(Mask, {'i': i, 'mask': np.repeat(np.int32([0, i, 7]), 3)}) for i in range(5)]
        spark.createDataFrame(rows, Mask.as_spark_schema()).coalesce(1).write.parquet(url)
    with petastorm.make_reader(url, reader_pool_type='dummy') as reader:
        got = sorted((int(r.i), r.mask.tolist()) for r in reader)
        codec = str(reader.schema.mask.codec)
    return [got, codec, petastorm.ext_codecs.RleCodec is RleCodec]
