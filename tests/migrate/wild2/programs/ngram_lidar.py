import logging
import numpy as np
import pyspark.sql.types as T
from petastorm import make_reader
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.ngram import NGram
from petastorm.unischema import dict_to_spark_row, Unischema, UnischemaField

log = logging.getLogger('petastorm')
log.setLevel(logging.ERROR)
logging.getLogger('petastorm.reader').setLevel('CRITICAL')

S = Unischema('Lidar', [
    UnischemaField('ts', np.int64, (), ScalarCodec(T.LongType()), False),
    UnischemaField('vel', np.float32, (), ScalarCodec(T.FloatType()), False),
    UnischemaField('vel_raw', np.float32, (), ScalarCodec(T.FloatType()), False),
    UnischemaField('tag', np.str_, (), ScalarCodec(T.StringType()), False),
])


def windows(url, fields, **kw):
    ngram = NGram(fields=fields, delta_threshold=10, timestamp_field=S.ts, timestamp_overlap=kw.pop('overlap', True))
    with make_reader(url, schema_fields=ngram, shuffle_row_groups=False, reader_pool_type='dummy', **kw) as r:
        return ngram.length, [{k: sorted(v._fields) + [int(v.ts)] for k, v in w.items()} for w in r]


def main(spark, directory):
    url = 'file://%s/lidar' % directory
    times = [0, 1, 2, 3, 30, 31, 32, 33, 34]
    with materialize_dataset(spark, url, S, 1):
        rows = [dict_to_spark_row(S, {'ts': t, 'vel': float(t), 'vel_raw': t * 1.5, 'tag': 't%d' % t}) for t in times]
        spark.createDataFrame(rows, S.as_spark_schema()).coalesce(1).sortWithinPartitions('ts').write.parquet(url)
    a = windows(url, {0: [S.ts, S.vel], 1: [S.ts, S.tag]})
    b = windows(url, {-1: [S.ts, '^vel.*'], 0: ['ts'], 1: [S.ts]}, overlap=False)
    n1 = NGram({0: [S.ts]}, 5, S.ts)
    return [a, b, n1 == NGram({0: [S.ts]}, 5, S.ts), n1.delta_threshold, sorted(n1.fields)]
