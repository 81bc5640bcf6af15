import sys, time
from collections import OrderedDict
from petastorm import make_batch_reader
from petastorm.reader import Reader, LOCAL_DISK_CACHE, NULL_CACHE
from petastorm.workers_pool.thread_pool import ThreadPool
from petastorm.workers_pool.dummy_pool import DummyPool
from petastorm.workers_pool import EmptyResultError, TimeoutWaitingForResultError

POOLS = OrderedDict(thread=dict(workers_count=3, results_queue_size=10), dummy={}, process=dict(workers_count=1, zmq_copy_buffers=False))


def read(url, pool, **kw):
    t = time.perf_counter()
    with make_batch_reader(url, reader_pool_type=pool, cache_type=NULL_CACHE, **kw) as r:
        assert isinstance(r, Reader)
        s = sum(int(b.id.sum()) for b in r)
    assert time.perf_counter() - t > 0
    return s


def main(spark, directory):
    url = 'file://' + directory + '/pp'
    spark.range(100).repartition(4).write.parquet(directory + '/pp')
    out = {k: read(url, k, **v) for k, v in POOLS.items()}
    try:
        read(url, 'greenlet')
    except ValueError as e:
        out['bad'] = str(e)
    out['consts'] = [LOCAL_DISK_CACHE, NULL_CACHE]
    out['exc'] = [issubclass(EmptyResultError, RuntimeError), TimeoutWaitingForResultError.__name__]
    out['raw'] = [ThreadPool(2).workers_count, DummyPool().workers_count]
    return out
