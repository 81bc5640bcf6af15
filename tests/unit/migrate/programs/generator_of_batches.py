"""Context managers that a generator holds open, with arguments built elsewhere."""
from contextlib import contextmanager

from petastorm.spark import SparkDatasetConverter, make_spark_converter


@contextmanager
def loader_of(conv, **context_args):
    with conv.make_torch_dataloader(**context_args) as loader:
        yield loader


def batches(conv, petastorm_reader_kwargs):
    with conv.make_torch_dataloader(num_epochs=1, **petastorm_reader_kwargs) as loader:
        for batch in loader:
            yield batch["n"].tolist()


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = make_spark_converter(spark.range(9).toDF("n").coalesce(1))
    context_args = dict(batch_size=4, shuffle_row_groups=False)
    context_args["num_epochs"] = 2
    with loader_of(conv, **context_args) as loader:
        spanning = [len(batch["n"]) for batch in loader]
    return [spanning, list(batches(conv, {"batch_size": 5, "shuffle_row_groups": False}))]
