"""A function that runs on Spark workers, with its own imports and a converter in its closure."""
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = make_spark_converter(spark.range(20).toDF("n"))
    loader_args = {"num_epochs": 1, "batch_size": 4, "shuffle_row_groups": False}

    def train_on_worker(rank):
        from petastorm.spark import SparkDatasetConverter

        assert isinstance(conv, SparkDatasetConverter)
        total = 0
        with conv.make_torch_dataloader(cur_shard=rank, shard_count=2, **loader_args) as loader:
            for batch in loader:
                total += int(batch["n"].sum())
        return total

    return spark.sparkContext.parallelize(range(2), 2).map(train_on_worker).collect()
