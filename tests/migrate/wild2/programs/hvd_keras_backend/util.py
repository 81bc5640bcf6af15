import math
import pyarrow.parquet as pq


def write_intermediate(spark, directory):
    df = spark.range(20).selectExpr('cast(id as float) as x', 'cast(id % 5 as float) as y', 'id')
    df.filter('id < 16').repartition(2, 'id').write.parquet(directory + '/train')
    df.filter('id >= 16').coalesce(1).write.parquet(directory + '/val')


def steps(params, path, size):
    return math.ceil(pq.read_table(path).num_rows / params.get('batch_size') / size)
