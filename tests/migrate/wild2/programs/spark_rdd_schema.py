from petastorm.spark_utils import dataset_as_rdd
from petastorm.unischema import Unischema as Uni, UnischemaField as UF, dict_to_spark_row, insert_explicit_nulls, match_unischema_fields
from petastorm.codecs import ScalarCodec, NdarrayCodec, CompressedImageCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.utils import decode_row, DecodeFieldError
import numpy as np, pyspark.sql.types as T


class Fields:
    id = UF('id', np.int64, (), ScalarCodec(T.LongType()), False)
    img = UF('img', np.uint8, (4, 4), CompressedImageCodec('png'), True)
    vec = UF('vec', np.float64, (None,), NdarrayCodec(), True)


ALL = Uni('All', [v for k, v in vars(Fields).items() if isinstance(v, UF)])


def main(spark, directory):
    url = 'file://' + directory + '/rdd'
    rows = []
    for i in range(6):
        d = {'id': i, 'vec': np.arange(i + 1.)}
        insert_explicit_nulls(ALL, d)
        assert d['img'] is None
        rows.append(dict_to_spark_row(ALL, d))
    df = spark.createDataFrame(rows, ALL.as_spark_schema())
    with materialize_dataset(spark, url, ALL):
        df.write.parquet(url)
    got = dataset_as_rdd(url, spark, [ALL.id, ALL.vec]).map(lambda r: (int(r.id), float(r.vec.sum()))).collect()
    decoded = decode_row(df.first().asDict(), ALL)
    bad = df.first().asDict(); bad['vec'] = bytearray(b'garbage')
    try:
        decode_row(bad, ALL)
    except DecodeFieldError as e:
        err = 'vec' in str(e)
    errs = []
    for d in ({'id': None}, {'id': 1, 'extra': 2}, {'id': 1, 'img': np.zeros((5, 5), np.uint8)}):
        try:
            dict_to_spark_row(ALL, d)
        except ValueError as e:
            errs.append(type(e).__name__)
    return [sorted(got), [str(f.dataType) for f in ALL.as_spark_schema()], sorted(decoded), err, errs,
            sorted(f.name for f in match_unischema_fields(ALL, ['i.*'])), Fields.id == UF(*Fields.id)]
