"""Rows that belong to a split, a set, or neither."""
from petastorm import make_reader
from petastorm.predicates import in_negate, in_pseudorandom_split, in_reduce, in_set


def main(spark, directory):
    url = "file://" + directory + "/split"
    spark.range(40).toDF("n").coalesce(1).write.parquet(url)

    def read(predicate):
        with make_reader(url, predicate=predicate, reader_pool_type="dummy", shuffle_row_groups=False) as reader:
            return [int(row.n) for row in reader]

    train = in_pseudorandom_split([0.7, 0.3], 0, "n")
    few = in_set({1, 5, 77}, "n")
    return [read(train), read(in_negate(train)), read(in_reduce([few, train], any))]
