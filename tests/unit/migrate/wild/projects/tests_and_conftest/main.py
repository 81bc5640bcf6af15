from unittest import mock
import loader
import petastorm.spark.spark_dataset_converter as sdc


def main(spark, directory):
    spark.conf.set(sdc.SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    with mock.patch("loader.make_spark_converter", wraps=sdc.make_spark_converter) as spy:
        n = loader.count(spark.range(6))
    return [n, spy.call_count]
