"""Windows of neighbouring rows."""
import numpy as np
from petastorm import make_reader
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.ngram import NGram
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import FloatType, LongType

Tide = Unischema("Tide", [
    UnischemaField("time", np.int64, (), ScalarCodec(LongType()), False),
    UnischemaField("level", np.float32, (), ScalarCodec(FloatType()), False),
])


def main(spark, directory):
    url = "file://" + directory + "/tides"
    with materialize_dataset(spark, url, Tide):
        rows = [dict_to_spark_row(Tide, {"time": t, "level": t / 2}) for t in (0, 1, 2, 3, 7, 8)]
        spark.createDataFrame(rows, Tide.as_spark_schema()).coalesce(1).write.parquet(url)
    pairs = NGram({0: [Tide.time], 1: [Tide.time, Tide.level]}, delta_threshold=1, timestamp_field=Tide.time)
    with make_reader(url, schema_fields=pairs, num_epochs=1, shuffle_row_groups=False,
                     reader_pool_type="dummy") as reader:
        return [[int(pair[0].time), int(pair[1].time), float(pair[1].level)] for pair in reader]
