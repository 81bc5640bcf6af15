from collections import deque
import petastorm
from petastorm import reader as petastorm_reader
from petastorm.pytorch import DataLoader as PetastormDataLoader, BatchedDataLoader
from petastorm.spark import SparkDatasetConverter
from petastorm.transform import TransformSpec
from petastorm.ngram import NGram
import torch.utils.data as tud


class NamedSpec(TransformSpec):
    def __init__(self, name, *a, **k):
        super().__init__(*a, **k)
        self.name = name


class SizedLoader(PetastormDataLoader):
    """has a len()"""

    def __init__(self, reader, n_rows, **kwargs):
        super(SizedLoader, self).__init__(reader, **kwargs)
        self.n_rows = n_rows

    def __len__(self):
        return -(-self.n_rows // self.batch_size)

    def __iter__(self):
        self._queue = deque(maxlen=2)
        for b in PetastormDataLoader.__iter__(self):
            self._queue.append(b)
            yield b


class PetastormIterable(tud.IterableDataset):
    def __init__(self, url, **kw):
        self.url, self.kw = url, kw

    def __iter__(self):
        info = tud.get_worker_info()
        shard = {} if info is None else dict(cur_shard=info.id, shard_count=info.num_workers)
        with petastorm.make_batch_reader(self.url, **{**self.kw, **shard}) as r:
            for batch in r:
                yield from (int(i) for i in batch.id)


class ReaderProxy:
    def __init__(self, reader: 'petastorm_reader.Reader'):
        self._reader = reader
        self.count = 0

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def __iter__(self):
        for item in self._reader:
            self.count += 1
            yield item


class MyConverter(SparkDatasetConverter):
    def halves(self):
        return len(self) // 2


def main(spark, directory):
    url = 'file://' + directory + '/sub'
    spark.range(11).coalesce(2).write.parquet(directory + '/sub')
    ld = SizedLoader(petastorm.make_batch_reader(url), 11, batch_size=4)
    with ld:
        n = len(list(ld))
    it = sorted(PetastormIterable(url, workers_count=1))
    with petastorm_reader.make_batch_reader(url, transform_spec=NamedSpec('noop', removed_fields=[])) as r:
        proxy = ReaderProxy(r)
        s = sum(int(b['id'].sum()) for b in BatchedDataLoader(proxy, batch_size=3))
    files = [url + '/x.parquet']
    conv = MyConverter(url, files, 11)
    return [n, len(ld), it, s, proxy.count > 0, conv.halves(), conv.file_urls == files, NGram.__mro__[-1].__name__]
