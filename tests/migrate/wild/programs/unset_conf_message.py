from petastorm.spark import make_spark_converter, SparkDatasetConverter


def main(spark, directory):
    spark.conf.unset(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)
    try:
        make_spark_converter(spark.range(2))
    except ValueError as error:
        return SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF in str(error)
