import os
import shutil
import tempfile
import time
from contextlib import contextmanager, closing

from petastorm import make_batch_reader
from petastorm.cache import CacheBase, NullCache
from petastorm.local_disk_cache import LocalDiskCache


class CountingCache(CacheBase):
    def __init__(self, inner):
        self.inner, self.hits, self.calls = inner, 0, 0

    def get(self, key, fill_cache_func):
        self.calls += 1
        called = []

        def fill():
            called.append(1)
            return fill_cache_func()
        v = self.inner.get(key, fill)
        self.hits += not called
        return v


@contextmanager
def petastorm_cache_dir(base):
    d = tempfile.mkdtemp(prefix='petastorm_cache_', dir=base)
    try:
        yield dict(cache_type='local-disk', cache_location=d, cache_size_limit=2 ** 28, cache_row_size_estimate=64,
                   cache_extra_settings={'cleanup': False})
    finally:
        shutil.rmtree(d, ignore_errors=True)


def main(spark, directory):
    spark.range(30).repartition(3).write.parquet(directory + '/d')
    sums = []
    with petastorm_cache_dir(directory) as kw:
        for _ in range(2):
            with make_batch_reader('file://' + directory + '/d', workers_count=1, **kw) as r:
                sums.append(sum(int(b.id.sum()) for b in r))
        filled = len(os.listdir(kw['cache_location'])) > 0
    c = CountingCache(LocalDiskCache(directory + '/ldc', 2 ** 28, 100, shards=1))
    got = [c.get('k', lambda: [1, 2]) for _ in range(3)]
    n = CountingCache(NullCache())
    [n.get('k', lambda: 1) for _ in range(3)]
    err = None
    try:
        make_batch_reader('file://' + directory + '/d', cache_type='redis')
    except ValueError as e:
        err = str(e)
    return [sums, filled, got, c.hits, n.hits, err]
