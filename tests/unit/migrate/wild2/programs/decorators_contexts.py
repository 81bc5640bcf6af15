import contextlib
import functools
import itertools
import time
from contextlib import closing, contextmanager, ExitStack
from petastorm import make_batch_reader


def retry(times, on=Exception):
    def deco(f):
        @functools.wraps(f)
        def inner(*a, **k):
            for attempt in range(times):
                try:
                    return f(*a, **k)
                except on:
                    if attempt + 1 == times:
                        raise
        return inner
    return deco


def with_petastorm_reader(**reader_kw):
    """Gives the function a `reader` by keyword; petastorm stuff stays out of its body."""
    def deco(f):
        @functools.wraps(f)
        def inner(url, *args, **kw):
            with make_batch_reader(url, **reader_kw) as reader:
                return f(*args, reader=reader, **kw)
        return inner
    return deco


@retry(3, on=OSError)
@with_petastorm_reader(workers_count=1, shuffle_row_groups=False)
def first_n(n, *, reader):
    return list(itertools.islice((int(i) for b in reader for i in b.id), n))


@contextmanager
def petastorm_readers(*urls, **kw):
    with ExitStack() as stack:
        yield [stack.enter_context(make_batch_reader(u, **kw)) for u in urls]


@functools.lru_cache(maxsize=None)
def schema_of(url):
    r = make_batch_reader(url)
    try:
        return tuple((n, f.numpy_dtype.__name__) for n, f in r.schema.fields.items())
    finally:
        r.stop(); r.join()


def main(spark, directory):
    for n in 'ab':
        spark.range(7).selectExpr('id', 'cast(id as string) s').coalesce(1).write.parquet('%s/%s' % (directory, n))
    a, b = ('file://%s/%s' % (directory, n) for n in 'ab')
    with petastorm_readers(a, b, num_epochs=2) as rs:
        counts = [sum(len(x.s) for x in r) for r in rs]
    reader_factory = functools.partial(make_batch_reader, schema_fields=['s'], reader_pool_type='dummy')
    with reader_factory(a) as r:
        fields = next(r)._fields
    return [first_n(a, 3), counts, schema_of(a), schema_of(a) is schema_of(a), list(fields), first_n.__name__]
