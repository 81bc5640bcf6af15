import petastorm.spark.spark_dataset_converter as petastorm_internal
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def main(spark, directory):
    deleted = []
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    old = petastorm_internal._FILE_AVAILABILITY_WAIT_TIMEOUT_SECS
    petastorm_internal._FILE_AVAILABILITY_WAIT_TIMEOUT_SECS = 2
    petastorm_internal.register_delete_dir_handler(lambda url: deleted.append(url.startswith("file:///")))
    try:
        conv = make_spark_converter(spark.range(5))
        conv.delete()
    finally:
        petastorm_internal.register_delete_dir_handler(None)
        petastorm_internal._FILE_AVAILABILITY_WAIT_TIMEOUT_SECS = old
    return deleted
