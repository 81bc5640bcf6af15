from functools import partial
from petastorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def in_memory(reader, batch_size, shuffling_queue_capacity):
    return InMemBatchedDataLoader(reader, batch_size=batch_size, rows_capacity=5)


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = make_spark_converter(spark.range(0, 7, 1, 1))
    fns = {"batched": BatchedDataLoader, "partial": partial(DataLoader, collate_fn=lambda rows: len(rows)), "mem": in_memory}
    out = {}
    for name, fn in fns.items():
        with conv.make_torch_dataloader(batch_size=3, num_epochs=1, workers_count=1, data_loader_fn=fn) as loader:
            out[name] = [b if isinstance(b, int) else b["id"].tolist() for b in loader]
    return out
