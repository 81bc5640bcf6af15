import importlib
import logging
import sys

REQUIRED = ("petastorm", "petastorm.pytorch", "pyspark")
NOISY = {"petastorm": logging.ERROR, "py4j": logging.ERROR}
MODULES = []

for required in REQUIRED:
    try:
        MODULES.append(importlib.import_module(required))
    except ImportError as error:
        sys.exit("install %s first: %s" % (required, error))


def quiet():
    for name, level in NOISY.items():
        logging.getLogger(name).setLevel(level)


def main(spark, directory):
    quiet()
    spark.range(0, 6, 1, 1).write.parquet(directory + "/t")
    reader = importlib.import_module(".reader", package="petastorm")
    loader = MODULES[1].DataLoader
    with loader(reader.make_batch_reader("file://" + directory + "/t"), batch_size=3) as batches:
        return [batch["id"].tolist() for batch in batches]
