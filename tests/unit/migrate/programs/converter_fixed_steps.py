"""A converter, an endless PyTorch loader and a fixed number of steps."""
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    acorns = spark.range(100).selectExpr("id", "cast(id AS float) AS weight", "cast(id % 3 AS int) AS species")
    conv = make_spark_converter(acorns.repartition(4))
    steps = max(1, len(conv) // 16)

    weights, sizes = 0.0, []
    with conv.make_torch_dataloader(batch_size=16, num_epochs=None) as loader:
        it = iter(loader)
        for _ in range(steps):
            batch = next(it)
            sizes.append(len(batch["species"]))
            weights += float(batch["weight"].sum() * 0)
    conv.delete()
    return {"sizes": sizes, "length": len(conv), "dtype": str(batch["weight"].dtype), "zero": weights}
