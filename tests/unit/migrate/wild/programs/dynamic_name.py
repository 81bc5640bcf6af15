# which backend is a matter of configuration
import importlib

BACKEND = "petastorm"
MODULES = {"reader": "%s.reader", "torch": "%s.pytorch"}


def load(kind):
    return importlib.import_module(MODULES[kind] % BACKEND)


def main(spark, directory):
    spark.range(0, 3, 1, 1).write.parquet(directory + "/t")
    with load("torch").DataLoader(load("reader").make_batch_reader("file://" + directory + "/t"), batch_size=3) as dl:
        return [b["id"].tolist() for b in dl]
