"""The converter's own module under another name."""
import petastorm.spark.spark_dataset_converter as sdc
from petastorm.spark.spark_dataset_converter import (SparkDatasetConverter,   # the class
                                                     make_spark_converter)


def main(spark, directory):
    deleted = []
    spark.conf.set(sdc.SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    sdc.register_delete_dir_handler(lambda url: deleted.append(url))
    try:
        conv = make_spark_converter(spark.range(3), parquet_row_group_size_bytes=1 << 20)
        conv.delete()
    finally:
        sdc.register_delete_dir_handler(None)
    return [isinstance(conv, SparkDatasetConverter), sdc.DEFAULT_ROW_GROUP_SIZE_BYTES, len(deleted)]
