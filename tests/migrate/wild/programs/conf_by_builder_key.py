from pyspark.sql import SparkSession
from petastorm.spark import make_spark_converter

CONF = {
    "spark.sql.session.timeZone": "UTC",
    "petastorm.spark.converter.parentCacheDirUrl": None,
}


def session(directory):
    builder = SparkSession.builder
    for k, v in CONF.items():
        builder = builder.config(k, v or "file://" + directory + "/petastorm.spark")
    return builder.getOrCreate()


def main(_, directory):
    spark = session(directory)
    conv = make_spark_converter(spark.range(0, 3, 1, 1).selectExpr("id", "array(1.5D, 2.5D) v"), dtype="float64")
    with conv.make_torch_dataloader(num_epochs=1, workers_count=1) as it:
        [b] = list(it)
    return {k: [str(t.dtype), t.tolist()] for k, t in b.items()}
