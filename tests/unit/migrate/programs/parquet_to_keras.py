"""Row groups of Parquet files, unbatched and batched again in TensorFlow."""
from petastorm import make_batch_reader
from petastorm.tf_utils import make_petastorm_dataset


def main(spark, directory):
    url = "file://" + directory + "/barks"
    spark.range(25).selectExpr("cast(id AS float) AS bark", "cast(id AS int) AS age", "id AS other") \
        .coalesce(1).write.parquet(url)
    with make_batch_reader(url, schema_fields=["bark", "age"], shuffle_row_groups=False, workers_count=1,
                           hdfs_driver="libhdfs") as reader:
        ds = make_petastorm_dataset(reader).unbatch().batch(10).map(lambda x: (x.bark, x.age))
        return [[bark.shape.as_list(), int(age[0])] for bark, age in ds]
