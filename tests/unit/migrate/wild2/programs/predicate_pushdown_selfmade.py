"""Uses private bits of the reader. We know."""
import petastorm.reader
from petastorm.arrow_reader_worker import ArrowReaderWorker
from petastorm.py_dict_reader_worker import PyDictReaderWorker
from petastorm.cache import NullCache
from petastorm.reader import Reader
from petastorm.workers_pool.thread_pool import ThreadPool
from petastorm.fs_utils import get_filesystem_and_path_or_paths
from petastorm.local_disk_cache import LocalDiskCache


class EvenRowGroupsReader(Reader):
    def _filter_row_groups(self, dataset, row_groups, *args, **kwargs):
        groups, preds = super()._filter_row_groups(dataset, row_groups, *args, **kwargs)
        return [g for g in groups if g % 2 == 0], preds


def open_even(url):
    fs, path = get_filesystem_and_path_or_paths(url)
    return EvenRowGroupsReader(fs, path, worker_class=ArrowReaderWorker, reader_pool=ThreadPool(2), cache=NullCache(),
                               is_batched_reader=True, shuffle_row_groups=False, num_epochs=1)


def main(spark, directory):
    spark.range(8).repartitionByRange(4, 'id').write.parquet(directory + '/even')
    with open_even('file://' + directory + '/even') as r:
        got = sorted(int(i) for b in r for i in b.id)
        pool = type(r._workers_pool).__name__
    return [got, pool, PyDictReaderWorker.__name__, hasattr(petastorm.reader, '_VENTILATE_EXTRA_ROWGROUPS')]
