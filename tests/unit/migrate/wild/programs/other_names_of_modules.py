import petastorm
import petastorm.pytorch
from petastorm import reader as reading

R = petastorm.reader
open_reader = R.make_batch_reader


class Source:
    def __init__(self, url):
        self._petastorm = url

    @property
    def petastorm(self):
        return self._petastorm

    @petastorm.setter
    def petastorm(self, url):
        self._petastorm = url


def loader(source, library=petastorm, **arguments):
    return library.pytorch.BatchedDataLoader(open_reader(source.petastorm, **arguments), batch_size=2)


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    source = Source("nowhere")
    source.petastorm = "file://" + directory + "/t"
    arguments = {"num_epochs": 1}
    arguments["reader_pool_type"] = "dummy"
    arguments.update(shuffle_row_groups=False)
    with loader(source, **arguments) as batches:
        rows = [batch["id"].tolist() for batch in batches]
    return {"rows": rows, "same": reading.make_batch_reader is open_reader}
