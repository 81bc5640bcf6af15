"""Two TensorFlow datasets in one statement that continues after a backslash."""
from petastorm.spark import SparkDatasetConverter
from petastorm.spark import make_spark_converter   # another import from the same module


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF,
                   "file://%s" % directory)
    tr = make_spark_converter(spark.range(40).selectExpr("id AS label", "array(id, id + 1) AS pixels"))
    va = make_spark_converter(spark.range(100, 110).selectExpr("id AS label", "array(id, id + 1) AS pixels"))
    seen = []
    with tr.make_tf_dataset(batch_size=8, num_epochs=1, cur_shard=1, shard_count=2, shuffle_row_groups=False) as a, \
         va.make_tf_dataset(batch_size=8, num_epochs=1, shuffle_row_groups=False) as b:
        pair = lambda row: (row.pixels, row.label)
        for dataset in (a.map(pair), b.map(pair)):
            seen.append(sorted(int(v) for _, labels in dataset for v in labels.numpy()))
    return seen
