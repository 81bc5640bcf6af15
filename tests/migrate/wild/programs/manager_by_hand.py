from petastorm.spark.spark_dataset_converter import (SparkDatasetConverter, TorchDatasetContextManager,
                                                    make_spark_converter)
from petastorm.pytorch import DataLoader


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = make_spark_converter(spark.range(0, 5, 1, 1))
    hand = SparkDatasetConverter(conv.cache_dir_url, conv.file_urls, conv.dataset_size)
    manager = TorchDatasetContextManager(hand.file_urls, 2, {"num_epochs": 1, "workers_count": 1}, 0, DataLoader)
    with manager as loader:
        return {"rows": [b["id"].tolist() for b in loader], "n": len(hand), "type": type(loader).__name__}
