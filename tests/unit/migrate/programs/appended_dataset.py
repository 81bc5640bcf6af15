"""A dataset that grows in two blocks, and is read by Spark, pyarrow and both kinds of readers."""
import numpy as np
import pyarrow.parquet as pq
from petastorm import make_batch_reader, make_reader
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url, materialize_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import LongType

Row = Unischema("Row", [UnischemaField("id", np.int64, (), ScalarCodec(LongType()), False)])


def write(spark, url, numbers, mode):
    with materialize_dataset(spark, url, Row, 16):
        rows = [dict_to_spark_row(Row, {"id": number}) for number in numbers]
        frame = spark.createDataFrame(rows, Row.as_spark_schema()).coalesce(1)
        frame.write.mode(mode).parquet(url)


def main(spark, directory):
    path = directory + "/rows"
    url = "file://" + path
    write(spark, url, range(4), "overwrite")
    write(spark, url, range(4, 7), "append")
    with make_reader(url, num_epochs=1, workers_count=1) as reader:
        seen = sorted(int(row.id) for row in reader)
    with make_batch_reader(url, num_epochs=1, workers_count=1) as reader:
        batched = sorted(int(number) for batch in reader for number in batch.id)
    table = sorted(pq.read_table(path).column("id").to_pylist())
    fields = sorted(get_schema_from_dataset_url(url).fields)
    return [seen, batched, table, spark.read.parquet(url).count(), fields]
