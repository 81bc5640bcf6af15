from datetime import date, datetime
from decimal import Decimal
import numpy as np
import pandas as pd
import pyspark.sql.types as T
from petastorm import make_batch_reader, make_reader
from petastorm.codecs import ScalarCodec, NdarrayCodec, CompressedNdarrayCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm.tf_utils import date_to_nsec_from_epoch

KINDS = [(np.int8, T.ByteType()), (np.uint8, T.ShortType()), (np.int16, T.ShortType()), (np.int32, T.IntegerType()),
         (np.int64, T.LongType()), (np.float32, T.FloatType()), (np.float64, T.DoubleType()), (np.bool_, T.BooleanType())]
S = Unischema('Kinds', [UnischemaField('f_%s' % k.__name__.strip('_'), k, (), ScalarCodec(t), False) for k, t in KINDS] +
              [UnischemaField('f_dec', Decimal, (), ScalarCodec(T.DecimalType(8, 3)), False),
               UnischemaField('f_arr', np.uint16, (2, None), CompressedNdarrayCodec(), False),
               UnischemaField('f_nat', np.str_, (), None, True)])


def main(spark, directory):
    url = 'file://' + directory + '/kinds'
    row = {f.name: f.numpy_dtype(1) for f in S.fields.values() if f.shape == () and f.numpy_dtype not in (Decimal, np.str_)}
    row.update(f_dec=Decimal('1.125'), f_arr=np.ones((2, 5), np.uint16), f_nat='native')
    with materialize_dataset(spark, url, S):
        spark.createDataFrame([dict_to_spark_row(S, row)], S.as_spark_schema()).write.parquet(url)
    with make_reader(url) as r:
        x = next(r)
        rows = {f: type(getattr(x, f)).__name__ + (str(x.f_arr.dtype) if f == 'f_arr' else '') for f in sorted(x._fields)}
    df = spark.createDataFrame([(date(2020, 1, 2), datetime(2020, 1, 2, 3), Decimal('2.5'), [1., 2.], bytearray(b'ab'), None)],
                               'd date, ts timestamp, dec decimal(5,2), arr array<float>, bin binary, none int')
    df.write.parquet(directory + '/nat')
    with make_batch_reader('file://' + directory + '/nat') as r:
        b = next(r)
        nat = {f: str(getattr(b, f).dtype) for f in sorted(b._fields)}
        declared = {n: getattr(f.numpy_dtype, '__name__', str(f.numpy_dtype)) for n, f in sorted(r.schema.fields.items())}
    return [rows, nat, declared, int(date_to_nsec_from_epoch(date(1970, 1, 2)))]
