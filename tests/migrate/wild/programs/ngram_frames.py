import numpy as np
from pyspark.sql.types import IntegerType
from petastorm.codecs import ScalarCodec, NdarrayCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.ngram import NGram
from petastorm.reader import make_reader
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row

Video = Unischema('Video', [
    UnischemaField('t', np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField('frame', np.uint8, (2, 2), NdarrayCodec(), False),
    UnischemaField('action', np.int32, (), ScalarCodec(IntegerType()), False),
])


def main(spark, directory):
    url = 'file://' + directory + '/video'
    with materialize_dataset(spark, url, Video):
        rows = [dict_to_spark_row(Video, dict(t=t, frame=np.full((2, 2), t % 250, np.uint8), action=t * 10))
                for t in [0, 1, 2, 3, 10, 11, 12]]
        spark.createDataFrame(rows, Video.as_spark_schema()).coalesce(1).write.parquet(url)
    fields = {
        0: [Video.t, Video.frame],
        1: [Video.t, Video.action],
    }
    ngram = NGram(fields=fields, delta_threshold=2, timestamp_field=Video.t)
    with make_reader(url, schema_fields=ngram, num_epochs=1, shuffle_row_groups=False) as reader:
        return sorted([int(w[0].t), int(w[0].frame[0, 0]), int(w[1].t), int(w[1].action), sorted(w[1]._fields)]
                      for w in reader)
