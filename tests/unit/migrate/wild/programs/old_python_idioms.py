# -*- coding: utf-8 -*-
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import numpy as np
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm.codecs import ScalarCodec, NdarrayCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.reader import Reader, make_reader
from pyspark.sql.types import IntegerType, StringType
try:
    xrange
except NameError:
    xrange = range

OldSchema = Unischema('OldSchema', [
    UnischemaField('key', np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField('text', np.string_, (), ScalarCodec(StringType()), False),
    UnischemaField('vec', np.int64, (None,), NdarrayCodec(), False)])


class Dumper(object):
    def __init__(self, url):
        super(Dumper, self).__init__()
        self.url = url

    def dump(self):
        reader = make_reader(self.url, num_epochs=1)
        assert isinstance(reader, Reader)
        out = []
        try:
            while True:
                try:
                    row = next(reader)
                except StopIteration:
                    break
                out.append([int(row.key), [int(v) for v in row.vec]])
        finally:
            reader.stop()
            reader.join()
        return sorted(out)


def main(spark, directory):
    url = 'file://{}/old'.format(directory)
    with materialize_dataset(spark, url, OldSchema, 16):
        data = map(lambda i: dict_to_spark_row(OldSchema, {'key': i, 'text': 'k%d' % i, 'vec': np.arange(i)}), xrange(4))
        spark.createDataFrame(list(data), OldSchema.as_spark_schema()).write.parquet(url)
    return Dumper(url).dump()
