"""XShards-like interface over parquet with petastorm below, after what analytics platforms ship."""
import json
import os
from collections import namedtuple
from functools import partial

import numpy as np
from petastorm import codecs as pc
import petastorm.unischema as pus
import petastorm.etl.dataset_metadata as pmd

SchemaField = namedtuple('SchemaField', ('feature_type', 'dtype', 'shape'))


class FeatureType:
    IMAGE, NDARRAY, SCALAR = 'image', 'ndarray', 'scalar'


class ParquetDataset:
    @staticmethod
    def write(path, generator, schema, spark, block_size=4, write_mode='overwrite'):
        uni = pus.Unischema('orca', [ParquetDataset._field(n, f) for n, f in schema.items()])
        url = path if '://' in path else 'file://' + path
        block, blocks = [], []
        for row in generator:
            block.append(row)
            if len(block) == block_size:
                blocks, block = blocks + [block], []
        blocks += [block] if block else []
        with pmd.materialize_dataset(spark, url, uni, 1):
            for n, b in enumerate(blocks):
                spark.createDataFrame(list(map(partial(pus.dict_to_spark_row, uni), b)), uni.as_spark_schema()) \
                    .coalesce(1).write.mode(write_mode if n == 0 else 'append').parquet(url)
        with open(path + '.orca.json', 'w') as f:
            json.dump({'petastorm': True, 'schema': list(schema)}, f)
        return len(blocks)

    @staticmethod
    def _field(name, f):
        import pyspark.sql.types as t
        codec = {FeatureType.IMAGE: lambda: pc.CompressedImageCodec('png'), FeatureType.NDARRAY: pc.NdarrayCodec,
                 FeatureType.SCALAR: lambda: pc.ScalarCodec(t.IntegerType())}[f.feature_type]()
        return pus.UnischemaField(name, f.dtype, f.shape, codec, False)

    @classmethod
    def read_as_torch(cls, path, **kw):
        from petastorm.pytorch import DataLoader
        from petastorm.reader import make_reader as mk
        return DataLoader(mk('file://' + path, **kw), batch_size=5)

    @classmethod
    def read_as_tf(cls, path):
        from petastorm import make_reader as mk, tf_utils
        return tf_utils.make_petastorm_dataset(mk('file://' + path, num_epochs=1))


def main(spark, directory):
    schema = {'image': SchemaField(FeatureType.IMAGE, np.uint8, (None, None)), 'label': SchemaField(FeatureType.SCALAR, np.int32, ())}
    path = directory + '/orca'
    n = ParquetDataset.write(path, ({'image': np.full((3, 3), i, np.uint8), 'label': i} for i in range(10)), schema, spark)
    with ParquetDataset.read_as_torch(path) as ld:
        torch_sum = sum(int(b['image'].long().sum()) for b in ld)
    tf_sum = sum(int(r.label) for r in ParquetDataset.read_as_tf(path))
    with open(path + '.orca.json') as f:
        return [n, torch_sum, tf_sum, json.load(f)]
