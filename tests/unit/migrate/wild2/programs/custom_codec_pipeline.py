import io
import json
import zlib
from typing import Any, Optional

import numpy as np
from pyspark.sql.types import BinaryType, StringType, LongType
from petastorm import codecs, make_reader, unischema
from petastorm.codecs import DataframeColumnCodec
from petastorm.etl import dataset_metadata, legacy

# petastorm only depickles what it knows: let our codecs in
legacy.safe_modules = set(legacy.safe_modules) | {__name__.split('.')[0], 'custom_codec_pipeline'}


class JsonCodec(DataframeColumnCodec):
    """Keep any json-able thing in a compressed blob"""

    def __init__(self, level: int = 6) -> None:
        self._level = level

    def encode(self, unischema_field: 'unischema.UnischemaField', value: Any) -> bytearray:
        return bytearray(zlib.compress(json.dumps(value.tolist()).encode(), self._level))

    def decode(self, unischema_field: "petastorm.unischema.UnischemaField", value: Any):  # noqa: F821
        return np.asarray(json.loads(zlib.decompress(bytes(value)).decode()), dtype=unischema_field.numpy_dtype)

    def spark_dtype(self):
        return BinaryType()

    def __str__(self):
        return f'{type(self).__name__}({self._level})'


class UpperCodec(codecs.ScalarCodec):
    def __init__(self):
        super().__init__(StringType())

    def decode(self, unischema_field, value):
        return super().decode(unischema_field, value).upper()


Schema = unischema.Unischema('WithCodecs', [
    unischema.UnischemaField('k', np.int64, (), codecs.ScalarCodec(LongType()), False),
    unischema.UnischemaField('blob', np.float64, (None,), JsonCodec(9), False),
    unischema.UnischemaField('word', np.str_, (), UpperCodec(), False),
    unischema.UnischemaField('z', np.float32, (None, 2), codecs.CompressedNdarrayCodec(), True),
])


def main(spark, directory):
    url = f'file://{directory}/codecs'

    def row(i):
        return {'k': i, 'blob': np.linspace(0, i, i + 1), 'word': 'w%d' % i,
                'z': None if i % 2 else np.ones((i, 2), dtype=np.float32)}

    with dataset_metadata.materialize_dataset(spark, url, Schema):
        rows = [unischema.dict_to_spark_row(Schema, row(i)) for i in range(6)]
        spark.createDataFrame(rows, Schema.as_spark_schema()).coalesce(1).write.parquet(url)
    got = []
    with make_reader(url, reader_pool_type='dummy', shuffle_row_groups=False) as reader:
        for r in reader:
            got.append([int(r.k), round(float(r.blob.sum()), 4), str(r.word), None if r.z is None else str(r.z.shape)])
        stored = {k: str(v.codec) for k, v in reader.schema.fields.items() if k == 'blob'}
    return [sorted(got), stored, str(codecs.CompressedImageCodec('jpeg', quality=80).image_codec)]
