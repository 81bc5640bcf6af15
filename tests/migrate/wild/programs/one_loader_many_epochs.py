"""trial function for hyperopt, loops over an infinite loader with fixed steps"""
from petastorm.spark import make_spark_converter, SparkDatasetConverter

EPOCHS = 3
BATCH = 4


def objective(conv, lr):
    seen = []
    with conv.make_torch_dataloader(batch_size=BATCH, num_epochs=None, shuffle_row_groups=False, workers_count=1) as dl:
        dataloader_iter = iter(dl)
        steps_per_epoch = len(conv) // BATCH
        for epoch in range(EPOCHS):
            for step in range(steps_per_epoch):
                pd_batch = next(dataloader_iter)
                seen.append(pd_batch["id"].tolist())
    return {"loss": sum(map(sum, seen)) * lr, "seen": seen}


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{directory}")
    conv = make_spark_converter(spark.range(0, 10, 1, 1))
    return [objective(conv, lr) for lr in (1, 2)]
