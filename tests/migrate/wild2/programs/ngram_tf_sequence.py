import numpy as np
import tensorflow as tf
from pyspark.sql.types import LongType, FloatType
from petastorm.codecs import NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.ngram import NGram
from petastorm.reader import make_reader
from petastorm.tf_utils import make_petastorm_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row

Sig = Unischema('Sig', [UnischemaField('t', np.int64, (), ScalarCodec(LongType()), False),
                        UnischemaField('v', np.float32, (2,), NdarrayCodec(), False)])


def main(spark, directory):
    url = 'file://' + directory + '/sig'
    with materialize_dataset(spark, url, Sig, 1):
        rows = [dict_to_spark_row(Sig, {'t': i, 'v': np.float32([i, -i])}) for i in range(8)]
        spark.createDataFrame(rows, Sig.as_spark_schema()).coalesce(1).sortWithinPartitions('t').write.parquet(url)
    window = NGram({i: ['t', 'v'] if i < 2 else ['t'] for i in range(3)}, delta_threshold=1, timestamp_field='t')
    window.resolve_regex_field_names(Sig)
    fields = {k: sorted(f.name for f in v) for k, v in window.fields.items()}
    w2 = NGram(fields={0: [Sig.t, Sig.v], 1: [Sig.t, Sig.v]}, delta_threshold=1, timestamp_field=Sig.t)
    with make_reader(url, schema_fields=w2, shuffle_row_groups=False, workers_count=1) as reader:
        ds = make_petastorm_dataset(reader).map(lambda w: tf.stack([w[0].v, w[1].v])).batch(3)
        got = [b.shape.as_list() for b in ds]
    sch = w2.get_schema_at_timestep(Sig, 1)
    return [fields, got, sorted(sch.fields), sorted(w2.get_field_names_at_timestep(0)), w2.length]
