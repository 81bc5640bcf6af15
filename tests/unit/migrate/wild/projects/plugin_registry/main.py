from plugins import REGISTRY, load_all
from plugins.petastorm_plugin import PetastormPlugin


def main(spark, directory):
    load_all()
    spark.range(0, 5, 1, 1).write.parquet(directory + "/t")
    assert REGISTRY["petastorm"] is PetastormPlugin
    return {k: REGISTRY[k]().read("file://" + directory + "/t") for k in sorted(REGISTRY)}
