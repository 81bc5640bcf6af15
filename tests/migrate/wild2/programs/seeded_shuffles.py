import random
import numpy as np
from petastorm import make_batch_reader, make_reader
from petastorm.pytorch import DataLoader, BatchedDataLoader
from petastorm.reader_impl.shuffling_buffer import RandomShufflingBuffer, NoopShufflingBuffer
from petastorm.reader_impl.pytorch_shuffling_buffer import BatchedRandomShufflingBuffer
import torch


def order(url, **kw):
    with make_batch_reader(url, reader_pool_type='dummy', **kw) as r:
        return [int(i) for b in r for i in b.id]


def main(spark, directory):
    url = 'file://' + directory + '/s'
    spark.range(30).repartition(5).write.parquet(directory + '/s')
    out = {}
    out['repeat'] = order(url, seed=11) == order(url, seed=11)
    out['plain'] = order(url, shuffle_row_groups=False) == order(url, shuffle_row_groups=False)
    out['rows'] = sorted(order(url, shuffle_rows=True, seed=1))
    out['drop'] = sorted(order(url, shuffle_row_drop_partitions=2))
    np.random.seed(0); random.seed(0); torch.manual_seed(0)
    with DataLoader(make_batch_reader(url, shuffle_row_groups=False, reader_pool_type='dummy'), batch_size=5, shuffling_queue_capacity=20) as ld:
        ids = [int(i) for b in ld for i in b['id']]
    out['loader'] = [sorted(ids) == list(range(30)), ids != sorted(ids)]
    buf = RandomShufflingBuffer(10, min_after_retrieve=3)
    buf.add_many(range(8))
    got = [buf.retrieve() for _ in range(4)]
    buf.finish()
    while buf.can_retrieve():
        got.append(buf.retrieve())
    out['buffer'] = [sorted(got), buf.size, NoopShufflingBuffer().can_add()]
    tb = BatchedRandomShufflingBuffer(20, 2, batch_size=4)
    tb.add_many([torch.arange(12)])
    tb.finish()
    n = 0
    while tb.can_retrieve():
        n += len(tb.retrieve()[0])
    out['batched_buffer'] = n
    return out
