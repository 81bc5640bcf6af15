"""A reader with a cache on the local disk, and a mixture of two readers."""
import numpy as np
from petastorm import make_batch_reader, make_reader
from petastorm.weighted_sampling_reader import WeightedSamplingReader


def main(spark, directory):
    url = "file://" + directory + "/cached"
    spark.range(10).toDF("n").coalesce(1).write.parquet(url)
    options = dict(cache_type="local-disk", cache_location=directory + "/cache", cache_size_limit=10 << 20,
                   cache_row_size_estimate=100)
    with make_reader(url, num_epochs=3, shuffle_row_groups=False, workers_count=2, **options) as reader:
        total = sum(int(row.n) for row in reader)
    np.random.seed(1)
    readers = [make_batch_reader(url, num_epochs=None, reader_pool_type="dummy") for _ in range(2)]
    with WeightedSamplingReader(readers, [0.5, 0.5]) as mixed:
        drawn = [len(next(mixed).n) for _ in range(4)]
    return [total, drawn]
