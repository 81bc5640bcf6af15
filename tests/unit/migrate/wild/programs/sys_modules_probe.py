import importlib.util
import sys

HAVE_PETASTORM = importlib.util.find_spec("petastorm") is not None
if HAVE_PETASTORM:
    import petastorm.reader


def main(spark, directory):
    spark.range(0, 3, 1, 1).write.parquet(directory + "/t")
    module = sys.modules["petastorm.reader"]
    with module.make_batch_reader("file://" + directory + "/t") as r:
        return [HAVE_PETASTORM, len(next(r).id)]
