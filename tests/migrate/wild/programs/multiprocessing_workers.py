import multiprocessing as mp
from concurrent.futures import ThreadPoolExecutor

from petastorm import make_batch_reader


def read_shard(args):
    url, shard, count = args
    with make_batch_reader(url, cur_shard=shard, shard_count=count, num_epochs=1, reader_pool_type='dummy') as reader:
        return sorted(int(i) for batch in reader for i in batch.id)


def main(spark, directory):
    spark.range(0, 12, 1, 3).write.parquet(directory + '/t')
    jobs = [('file://' + directory + '/t', i, 3) for i in range(3)]
    pool = ThreadPoolExecutor(mp.cpu_count() if False else 2)
    with pool:
        parts = list(pool.map(read_shard, jobs))
    return {'all': sorted(sum(parts, [])), 'sizes': [len(p) for p in parts]}
