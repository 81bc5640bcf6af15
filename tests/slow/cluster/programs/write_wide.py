"""Write a small and then a large table with 4,008-byte rows.

Arguments: the URL, and the number of rows in the large table.
"""

import sys

from pyspark.sql import SparkSession

from mdstorm_backend import materialize

url, rows = sys.argv[1:]
spark = SparkSession.builder.appName("write_wide").getOrCreate()
for name, number in (("small", 50_000), ("large", int(rows))):
    df = spark.range(0, number, 1, 8).selectExpr("id", "array_repeat(float(id), 1000) AS x")
    materialize(df, f"{url}/{name}")
spark.stop()
