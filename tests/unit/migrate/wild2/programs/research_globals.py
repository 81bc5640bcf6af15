#!/usr/bin/env python
# quick & dirty, do not review
import sys, os, json, argparse, random
import numpy as np
from petastorm.unischema import *
from petastorm.codecs import *
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.reader import make_reader
from petastorm.predicates import in_pseudorandom_split, in_lambda, in_set
from pyspark.sql.types import *

p = argparse.ArgumentParser()
p.add_argument('--split', default='0.6,0.2,0.2')
p.add_argument('--workers', type=int, default=2)
p.add_argument('--petastorm-cache', dest='petastorm_cache', default=None, help='where petastorm keeps its cache')
FLAGS, _ = p.parse_known_args([])

SCHEMA = Unischema('Tracks', [
    UnischemaField('track_id', np.str_, (), ScalarCodec(StringType()), False),
    UnischemaField('frame', np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField('xyz', np.float32, (3,), NdarrayCodec(), False),
    UnischemaField('score', np.float64, (), ScalarCodec(DoubleType()), True),
])
splits = [float(x) for x in FLAGS.split.split(',')]
URL = None


def gen(i):
    return dict_to_spark_row(SCHEMA, {
        'track_id': 'trk_%03d' % (i // 4), 'frame': i, 'xyz': np.arange(3, dtype=np.float32) * i,
        'score': None if i % 5 == 0 else i / 10.0})


def load(which, **kw):
    out = []
    kw.setdefault('workers_count', FLAGS.workers)
    with make_reader(URL, predicate=in_pseudorandom_split(splits, which, 'track_id'), shuffle_row_groups=False, **kw) as r:
        for row in r:
            out.append(int(row.frame))
    return sorted(out)


def main(spark, directory):
    global URL
    URL = 'file://' + os.path.join(directory, 'tracks')
    with materialize_dataset(spark, URL, SCHEMA, row_group_size_mb=1):
        spark.createDataFrame(spark.sparkContext.parallelize(range(40), 3).map(gen), SCHEMA.as_spark_schema()).write.parquet(URL)
    parts = {n: load(k) for k, n in enumerate(['train', 'val', 'test'])}
    assert sum(map(len, parts.values())) == 40
    with make_reader(URL, schema_fields=['frame', 'score'], predicate=in_lambda(['score'], lambda s: s is None),
                     cache_type='local-disk', cache_location=FLAGS.petastorm_cache or directory + '/c',
                     cache_size_limit=10 ** 8, cache_row_size_estimate=100) if False else \
            make_reader(URL, schema_fields=['frame', 'score'], predicate=in_lambda(['score'], lambda s: s is None)) as r:
        nulls = sorted(x.frame.item() for x in r)
    with make_reader(URL, schema_fields=[SCHEMA.frame, SCHEMA.xyz, 'track_.*'], predicate=in_set({'trk_001', 'trk_007'}, 'track_id')) as r:
        sums = sorted(float(x.xyz.sum()) for x in r)
    return dict(parts, nulls=nulls, sums=sums)
