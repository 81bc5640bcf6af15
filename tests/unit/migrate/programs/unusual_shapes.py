"""Converters in a comprehension and with ``:=``, and loaders on an `ExitStack`."""
from contextlib import ExitStack

from petastorm.spark import *  # noqa: F403


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)  # noqa: F405
    frames = {"train": spark.range(9), "test": spark.range(4)}
    converters = {name: make_spark_converter(frame) for name, frame in frames.items()}  # noqa: F405
    found = {name: len(converter) for name, converter in converters.items()}
    if (steps := len(extra := make_spark_converter(spark.range(6)))) > 1:  # noqa: F405
        found["extra"] = steps
    with ExitStack() as stack:
        loaders = [stack.enter_context(one.make_torch_dataloader(batch_size=4, num_epochs=1))
                   for one in (*converters.values(), extra)]
        found["seen"] = [sorted(i for batch in loader for i in batch["id"].tolist()) for loader in loaders]
    return found
