from petastorm.spark import *
from petastorm import make_batch_reader


def main(spark, directory):
    spark.range(0, 6, 1, 2).write.parquet(directory + '/t')
    args = dict(cache_type='local-disk', cache_location=directory + '/local', cache_size_limit=10 ** 8,
                cache_row_size_estimate=100, num_epochs=2, shuffle_row_groups=False)
    with make_batch_reader('file://' + directory + '/t', **args) as reader:
        values = [int(i) for b in reader for i in b.id]
    return {'sorted': sorted(values), 'star': 'make_spark_converter' in globals()}
