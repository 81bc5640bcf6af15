# 2018 code base, never updated; make_reader variant still works
from petastorm.reader import make_reader, make_batch_reader

try:
    from petastorm.reader import ShuffleOptions
except ImportError:
    ShuffleOptions = None
try:
    from petastorm.pytorch import BatchDataLoader
except ImportError:
    from petastorm.pytorch import BatchedDataLoader as BatchDataLoader


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    with BatchDataLoader(make_batch_reader("file://" + directory + "/t"), batch_size=3) as l:
        return {"old": ShuffleOptions is None, "rows": [b["id"].tolist() for b in l]}
