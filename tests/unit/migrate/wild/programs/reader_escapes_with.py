from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader


def broken_loader(url):
    with DataLoader(make_batch_reader(url), batch_size=2) as loader:
        return loader


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    try:
        return [b["id"].tolist() for b in broken_loader("file://" + directory + "/t")]
    except RuntimeError as e:
        return "after a reader" in str(e)
