import json
import multiprocessing as mp
import os
import subprocess
import sys

WORKER = r'''
import sys, json
from petastorm import make_batch_reader
url, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with make_batch_reader(url, cur_shard=rank, shard_count=size, workers_count=1) as r:
    print("RESULT " + json.dumps(sorted(int(i) for b in r for i in b.id)))
'''


def shard_worker(args):
    url, rank, size = args
    from petastorm import make_batch_reader
    with make_batch_reader(url, cur_shard=rank, shard_count=size, reader_pool_type='dummy') as reader:
        return sum(int(b.id.sum()) for b in reader)


def main(spark, directory):
    url = 'file://' + directory + '/mp'
    spark.range(40).repartition(4).write.parquet(directory + '/mp')
    ctx = mp.get_context('fork') if False else None
    threads = [shard_worker((url, r, 2)) for r in range(2)]
    got = []
    for rank in range(2):
        p = subprocess.run([sys.executable, '-W', 'ignore', '-c', WORKER, url, str(rank), '2'], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, universal_newlines=True)
        line = [x for x in p.stdout.splitlines() if x.startswith('RESULT ')]
        got += json.loads(line[0][7:]) if line else [p.stderr[-300:]]
    return [sum(threads), sorted(got), ctx is None]
