import sys
import petastorm
from packaging.version import Version

if Version(petastorm.__version__) >= Version("0.9.0"):
    from petastorm.pytorch import BatchedDataLoader as Loader
else:
    from petastorm.pytorch import DataLoader as Loader


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    with Loader(petastorm.make_batch_reader("file://" + directory + "/t"), batch_size=4) as loader:
        return [Loader.__name__] + [b["id"].tolist() for b in loader]
