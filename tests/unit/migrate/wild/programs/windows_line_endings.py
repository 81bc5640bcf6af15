from petastorm.spark import SparkDatasetConverter, \
    make_spark_converter

def main(spark, directory):
    # Windows checkout, do not normalise
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file:///" + directory.lstrip("/"))
    conv = make_spark_converter(spark.range(0, 5, 1, 1), 1000000, "snappy", None)
    with conv.make_torch_dataloader(2, 1, 1) as loader:
        return [b["id"].tolist() for b in loader]
