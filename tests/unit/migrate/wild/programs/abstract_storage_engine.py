"""Storage engines of our framework. `petastorm` is one of them, and also the name of half of everything here."""
from abc import ABC, abstractmethod

from petastorm import make_batch_reader

PETASTORM = "petastorm"
petastorm_cache_dir = "/mnt/petastorm_cache"


class StorageEngine(ABC):
    @abstractmethod
    def load(self, where): ...


class PetastormStorageEngine(StorageEngine):
    """The petastorm.reader based engine; see petastorm.readthedocs.io"""
    name = "petastorm"

    def load(self, where, petastorm_reader_pool_type="dummy"):
        with make_batch_reader(where, reader_pool_type=petastorm_reader_pool_type) as reader:
            return [int(i) for b in reader for i in b.id]


def get_engine(name):
    petastorm = PetastormStorageEngine()
    return {"petastorm": petastorm, "arrow": None}[name]


def main(spark, directory):
    spark.range(0, 3, 1, 1).write.parquet(directory + "/petastorm")
    petastorm = get_engine(PETASTORM)
    return {"rows": petastorm.load("file://" + directory + "/petastorm"), "name": petastorm.name, "dir": petastorm_cache_dir}
