from petastorm.reader import Reader, make_batch_reader
from petastorm.pytorch import LoaderBase, BatchedDataLoader, DataLoader
from petastorm.ngram import NGram
from petastorm.cache import NullCache


def kind(obj):
    if isinstance(obj, Reader):
        return "reader"
    if isinstance(obj, LoaderBase):
        return "loader"
    return type(obj).__name__


def main(spark, directory):
    spark.range(0, 2, 1, 1).write.parquet(directory + "/t")
    url = "file://" + directory + "/t"
    with make_batch_reader(url) as reader, DataLoader(make_batch_reader(url)) as loader:
        return [kind(reader), kind(loader), issubclass(BatchedDataLoader, LoaderBase), kind(NullCache()),
                list(reader.schema.fields), reader.num_epochs if hasattr(reader, "num_epochs") else None]
