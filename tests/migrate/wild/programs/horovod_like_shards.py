import os
import pickle
from petastorm.spark import SparkDatasetConverter, make_spark_converter


class FakeHvd:
    def __init__(self, rank, size):
        self._r, self._s = rank, size

    def rank(self):
        return self._r

    def size(self):
        return self._s


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = make_spark_converter(spark.range(0, 12, 1, 4), parquet_row_group_size_bytes=int(1e6))
    blob = pickle.dumps(conv)

    def train_fn(hvd):
        local = pickle.loads(blob)
        with local.make_torch_dataloader(batch_size=2, num_epochs=1, cur_shard=hvd.rank(), shard_count=hvd.size(),
                                         reader_pool_type="thread", workers_count=1) as loader:
            return [x for batch in loader for x in batch["id"].tolist()]

    shards = [train_fn(FakeHvd(r, 2)) for r in range(2)]
    return {"all": sorted(sum(shards, [])), "sizes": [len(s) for s in shards],
            "steps": len(conv) // (2 * 2), "disjoint": not set(shards[0]) & set(shards[1])}
