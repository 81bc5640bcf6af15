"""Loaders that return whole columns, read from files or kept in memory."""
from petastorm.pytorch import BatchedDataLoader, InMemBatchedDataLoader
from petastorm.reader import make_batch_reader


def main(spark, directory):
    url = "file://" + directory + "/columns"
    spark.range(10).selectExpr("id AS n", "id % 2 = 0 AS even").coalesce(1).write.parquet(url)

    def reader():
        return make_batch_reader("file://" + directory + "/columns", num_epochs=1, shuffle_row_groups=False,
                                 workers_count=1)

    with BatchedDataLoader(reader(), batch_size=4, shuffling_queue_capacity=0) as loader:
        once = [[batch["n"].tolist(), str(batch["even"].dtype)] for batch in loader]
    memory = InMemBatchedDataLoader(reader(), batch_size=6, num_epochs=2, rows_capacity=100, shuffle=False)
    return [once, [batch["n"].tolist() for batch in memory]]
