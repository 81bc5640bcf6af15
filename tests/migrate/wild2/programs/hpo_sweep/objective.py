import contextlib

from petastorm.spark import SparkDatasetConverter, make_spark_converter

SEEN = []
CONF = SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF


@contextlib.contextmanager
def session(spark, directory):
    old = spark.conf.get(CONF, None)
    spark.conf.set(CONF, f'file://{directory}/hpo')
    conv = make_spark_converter(spark.range(20).selectExpr('cast(id as float) / 10 as x', 'cast(id as float) / 5 as y'))
    try:
        yield conv
    finally:
        conv.delete()
        spark.conf.unset(CONF) if old is None else spark.conf.set(CONF, old)


def run(conv, lr, bs):
    w, last = 0.0, 0.0
    with conv.make_torch_dataloader(batch_size=bs, num_epochs=2, workers_count=1, reader_pool_type='dummy',
                                    shuffle_row_groups=False) as dl:
        for b in dl:
            err = w * b['x'] - b['y']
            last = float((err ** 2).mean())
            w -= lr * float((err * b['x']).mean())
    SEEN.append(round(last, 4))
    return last
