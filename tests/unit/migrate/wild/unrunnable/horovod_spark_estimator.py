import horovod.spark.torch as hvd_torch
from horovod.spark.common.store import DBFSLocalStore
from horovod.spark.common import util
import petastorm
from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader, InMemBatchedDataLoader


class PetastormAsyncDataLoader(BatchedDataLoader):
    def __init__(self, reader, batch_size, transformation=None, **kw):
        super().__init__(reader, batch_size=batch_size, transform_fn=transformation, **kw)


def train_fn(store, rank, size, inmemory):
    loader_cls = InMemBatchedDataLoader if inmemory else PetastormAsyncDataLoader
    with make_batch_reader(store.get_train_data_path(), num_epochs=1 if inmemory else None, cur_shard=rank, shard_count=size,
                           hdfs_driver=petastorm_hdfs_driver, schema_fields=cols, storage_options=store.storage_options) as reader:
        with loader_cls(reader, batch_size=64) as loader:
            step(loader)


petastorm_hdfs_driver = "libhdfs"
cols = ["features"]
