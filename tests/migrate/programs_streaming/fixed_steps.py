"""An endless loader with a fixed number of steps, doubles and booleans, and a length."""
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    acorns = spark.range(40).selectExpr("id", "id / 2 AS weight", "id % 2 = 0 AS ripe", "array(id, id / 4) AS pair")
    conv = make_spark_converter(acorns)
    steps = 2 * max(1, len(conv) // 16) + 1

    ids, kinds = [], {}
    with conv.make_torch_dataloader(batch_size=16, num_epochs=None) as loader:
        it = iter(loader)
        for _ in range(steps):
            batch = next(it)
            ids += batch["id"].tolist()
            kinds = {name: [str(values.dtype), list(values.shape[1:])] for name, values in batch.items()}
    conv.delete()
    return {"ids": len(set(ids[:40])), "steps": steps, "kinds": kinds}
