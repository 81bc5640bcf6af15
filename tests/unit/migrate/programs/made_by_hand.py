"""A converter and a context manager made by hand from another converter's files."""
import functools
import pickle

from petastorm.pytorch import DataLoader
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm.spark.spark_dataset_converter import TorchDatasetContextManager


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = make_spark_converter(spark.range(12).toDF("n").coalesce(1))
    again = SparkDatasetConverter(conv.cache_dir_url, conv.file_urls, conv.dataset_size)
    thawed = pickle.loads(pickle.dumps(again))
    manager = TorchDatasetContextManager(thawed.file_urls, 5, {"num_epochs": 1, "shuffle_row_groups": False}, 0, None)
    with manager as loader:
        sizes = [len(batch["n"]) for batch in loader]
    collate = functools.partial(DataLoader, collate_fn=lambda rows: sum(int(row["n"]) for row in rows))
    with again.make_torch_dataloader(batch_size=6, num_epochs=1, shuffle_row_groups=False,
                                     data_loader_fn=collate) as loader:
        return [sizes, list(loader), len(again)]
