import tensorflow.compat.v1 as tf
import numpy as np
import pyspark.sql.types as T
from petastorm import make_reader
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.tf_utils import tf_tensors, make_petastorm_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row

Sch = Unischema('TF', [UnischemaField('id', np.int64, (), ScalarCodec(T.LongType()), False),
                       UnischemaField('w', np.float32, (), ScalarCodec(T.FloatType()), False),
                       UnischemaField('name', np.str_, (), ScalarCodec(T.StringType()), False)])


def main(spark, directory):
    url = 'file://%s/tf1' % directory
    with materialize_dataset(spark, url, Sch, 1):
        spark.createDataFrame([dict_to_spark_row(Sch, dict(id=i, w=i / 2, name='n%d' % i)) for i in range(10)],
                              Sch.as_spark_schema()).coalesce(1).write.parquet(url)
    out = {}
    with tf.Graph().as_default(), tf.Session() as sess, make_reader(url, shuffle_row_groups=False) as reader:
        tensors = tf_tensors(reader)
        out['static'] = [tensors.id.dtype.name, tensors.w.dtype.name, tensors.name.dtype.name, list(tensors._fields)]
        rows = []
        try:
            while True:
                rows.append(int(sess.run(tensors).id))
        except tf.errors.OutOfRangeError:
            pass
        out['rows'] = sorted(rows)
    with make_reader(url, schema_fields=['id', 'w'], shuffle_row_groups=False, num_epochs=2) as reader:
        ds = make_petastorm_dataset(reader)
        ds = ds.filter(lambda r: r.id % 2 == 0).map(lambda r: r.w * 2).batch(4)
        out['ds'] = [b.numpy().tolist() for b in ds]
    return out
