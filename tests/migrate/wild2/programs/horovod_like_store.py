"""A store a la horovod.spark.common.store, stripped to what our trainer needs."""
import contextlib
import os
import re
import shutil
import uuid

import pyarrow.parquet as pq


class Store(object):
    def __init__(self):
        self._train_data_to_key = {}

    def is_parquet_dataset(self, path):
        raise NotImplementedError()

    def get_train_data_path(self, idx=None):
        raise NotImplementedError()

    @staticmethod
    def create(prefix_path, *args, **kwargs):
        return LocalStore(prefix_path, *args, **kwargs)


class FilesystemStore(Store):
    def __init__(self, prefix_path, train_path=None, val_path=None):
        self.prefix_path = prefix_path
        self._train_path = train_path or os.path.join(prefix_path, 'intermediate_train_data')
        self._val_path = val_path or os.path.join(prefix_path, 'intermediate_val_data')
        super(FilesystemStore, self).__init__()

    def get_train_data_path(self, idx=None):
        return '{}.{}'.format(self._train_path, idx) if idx is not None else self._train_path

    def get_val_data_path(self, idx=None):
        return '{}.{}'.format(self._val_path, idx) if idx is not None else self._val_path

    def path_prefix(self):
        return 'file://'


class LocalStore(FilesystemStore):
    def is_parquet_dataset(self, path):
        try:
            return pq.ParquetDataset(path) is not None
        except Exception:
            return False


def get_simple_meta_from_parquet(store, label_columns, feature_columns):
    ds = pq.ParquetDataset(store.get_train_data_path(0))
    schema = ds.schema.to_arrow_schema() if hasattr(ds.schema, 'to_arrow_schema') else ds.schema
    return {f.name: str(f.type) for f in schema if f.name in label_columns + feature_columns}


def RemoteTrainer(store, meta, rank, size, epochs=1, batch_size=4):
    reader_worker_count = 2

    def train():
        from petastorm import make_batch_reader
        from petastorm.pytorch import BatchedDataLoader
        import torch

        # Petastorm: read data from the store with the correct shard for this rank
        # setting num_epochs=None will cause an infinite iterator
        # and enables ranks to perform training and validation with
        # unequal number of samples
        with make_batch_reader(store.path_prefix() + store.get_train_data_path(0),
                               num_epochs=1,
                               cur_shard=rank,
                               reader_pool_type='thread',
                               workers_count=reader_worker_count,
                               shard_count=size,
                               hdfs_driver='libhdfs',
                               schema_fields=sorted(meta)) as train_reader:
            loader = BatchedDataLoader(train_reader, batch_size=batch_size, shuffling_queue_capacity=8)
            n, s = 0, 0.
            for batch in loader:
                n += len(batch['label'])
                s += float(batch['label'].sum())
            return n, s, str(batch['x'].dtype)
    return train


def main(spark, directory):
    store = Store.create(directory)
    df = spark.range(32).selectExpr('cast(id as float) x', 'id * 2 as label', 'id % 3 as junk')
    df.repartition(4).write.parquet(store.get_train_data_path(0))
    meta = get_simple_meta_from_parquet(store, ['label'], ['x'])
    res = [RemoteTrainer(store, meta, r, 2)() for r in range(2)]
    return [meta, sum(r[0] for r in res), sum(r[1] for r in res), [r[2] for r in res],
            store.is_parquet_dataset(directory + '/nothing_here')]
