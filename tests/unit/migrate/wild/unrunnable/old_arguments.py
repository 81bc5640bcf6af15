import asyncio
from functools import partial

from petastorm import make_batch_reader, make_reader
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.pytorch import BatchedDataLoader

COMMON = {"num_epochs": None}
COMMON["s3_config_kwargs"] = {"endpoint_override": "http://minio:9000"}


def readers(url, rank, world):
    yield make_reader(url, ["a", "b"], "thread", 10, False, 50, True, 1)
    yield make_batch_reader(url, None, "process", 4, False)
    yield make_batch_reader(url, **COMMON)
    yield make_reader(url, ["a"], "dummy", 1)


async def loaders(url):
    reader = await asyncio.to_thread(make_reader, url, num_epochs=1)
    cached = partial(BatchedDataLoader, inmemory_cache_all=True)
    yield cached(reader, batch_size=10)


def write(spark, url, schema, frame, fs):
    with materialize_dataset(spark, url, schema, pyarrow_filesystem=fs):
        frame.write.parquet(url)
