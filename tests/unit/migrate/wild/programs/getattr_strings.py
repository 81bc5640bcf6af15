import importlib
import petastorm

READERS = {"row": "make_reader", "batch": "make_batch_reader"}


def factory(kind):
    return getattr(petastorm, READERS[kind])


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    torch_mod = importlib.import_module("petastorm.pytorch")
    loader_cls = getattr(importlib.import_module("petastorm.pytorch"), "DataLoader")
    with loader_cls(factory("batch")("file://" + directory + "/t"), batch_size=2) as dl:
        rows = [b["id"].tolist() for b in dl]
    sub = __import__("petastorm.spark", fromlist=["make_spark_converter"])
    return {"rows": rows, "same": torch_mod.DataLoader is loader_cls, "has": hasattr(sub, "make_spark_converter")}
