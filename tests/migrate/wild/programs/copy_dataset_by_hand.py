import numpy as np
from petastorm import make_reader
from petastorm.codecs import ScalarCodec, NdarrayCodec
from petastorm.etl.dataset_metadata import materialize_dataset, get_schema_from_dataset_url
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import IntegerType


def copy(spark, source, target, keep):
    schema = get_schema_from_dataset_url(source)
    view = schema.create_schema_view([schema.fields[k] for k in keep])
    with make_reader(source, schema_fields=keep, num_epochs=1) as reader:
        rows = [dict_to_spark_row(view, row._asdict()) for row in reader]
    with materialize_dataset(spark, target, view, row_group_size_mb=2):
        spark.createDataFrame(rows, view.as_spark_schema()).coalesce(1).write.parquet(target)
    return view


def main(spark, directory):
    Src = Unischema("Src", [UnischemaField("id", np.int32, (), ScalarCodec(IntegerType()), False),
                            UnischemaField("big", np.int64, (2, 2), NdarrayCodec(), False),
                            UnischemaField("junk", np.int32, (), ScalarCodec(IntegerType()), True)])
    a, b = "file://%s/a" % directory, "file://%s/b" % directory
    with materialize_dataset(spark, a, Src):
        spark.createDataFrame([dict_to_spark_row(Src, {"id": i, "big": np.eye(2, dtype=np.int64) * i, "junk": None}) for i in range(3)],
                              Src.as_spark_schema()).write.parquet(a)
    copy(spark, a, b, ["id", "big"])
    with make_reader(b) as r:
        return sorted([int(x.id), x.big.tolist()] for x in r)
