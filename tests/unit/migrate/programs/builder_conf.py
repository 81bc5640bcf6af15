"""The cache directory, passed to the session builder by its key and by the constant."""
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from pyspark.sql import SparkSession


def main(spark, directory):
    session = (SparkSession.builder
               .config("petastorm.spark.converter.parentCacheDirUrl", "file://" + directory)
               .config(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory + "/b")
               .getOrCreate())
    conv = make_spark_converter(session.range(5), dtype=None)
    return [len(conv), conv.cache_dir_url.startswith("file://" + directory + "/b")]
