"""Prepare a table for training: the executors of a Spark cluster write it to a shared store.

spark-submit --master spark://HOST:7077 write.py s3://bucket/numbers [ROWS]
"""

import sys

from pyspark.sql import SparkSession

from mdstorm_backend import materialize

url, rows = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000

spark = SparkSession.builder.appName("write").getOrCreate()
df = spark.range(rows).selectExpr(
    "id",
    "transform(sequence(1, 16), n -> cos(id * n)) AS x",
    f"2 * id / {rows} AS y",
)
dataset = materialize(df, url, shard_size=1 << 18)
print(f"{len(dataset):,} rows in {len(dataset.file_urls)} shards at {dataset.url}")
spark.stop()
