from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader


def loader(url, **kw):
    try:
        return DataLoader(make_batch_reader(url), batch_size=2, shuffle=True, pin_memory=True)
    except TypeError as error:
        print("old petastorm?", error)
        return DataLoader(make_batch_reader(url, shuffle_row_groups=False), batch_size=2)


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    with loader("file://" + directory + "/t") as l:
        return [b["id"].tolist() for b in l]
