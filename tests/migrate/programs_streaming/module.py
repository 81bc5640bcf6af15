"""Converters as attributes, two loaders in one ``with``, shares from the environment."""
import os

from petastorm.spark import SparkDatasetConverter, make_spark_converter


class Oaks:
    def __init__(self, spark, directory):
        spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{directory}")
        train, test = spark.range(30), spark.range(8)
        self.train = make_spark_converter(train.repartition(2))
        self.test = make_spark_converter(test)

    def fit(self):
        rank = int(os.environ.get("RANK", "0"))
        world = int(os.environ.get("WORLD_SIZE", "1"))
        with self.train.make_torch_dataloader(batch_size=8, num_epochs=1, cur_shard=rank, shard_count=world) as a, \
                self.test.make_torch_dataloader(batch_size=8, num_epochs=1, workers_count=1) as b:
            seen = sorted(number for batch in a for number in batch["id"].tolist())
            return [seen, sum(len(batch["id"]) for batch in b)]


def main(spark, directory):
    return Oaks(spark, directory).fit()
