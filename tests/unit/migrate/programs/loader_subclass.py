"""A user's own loader, derived from Petastorm's, with a collate function."""
import numpy as np
from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader as PetastormDataLoader, decimal_friendly_collate


class CountingLoader(PetastormDataLoader):
    def __init__(self, reader, batch_size=4, collate_fn=decimal_friendly_collate):
        super(CountingLoader, self).__init__(reader, batch_size=batch_size, collate_fn=collate_fn)
        self.batches = 0

    def __iter__(self):
        for batch in super(CountingLoader, self).__iter__():
            self.batches += 1
            yield batch


def collate(rows):
    return np.stack([row["n"] * 10 for row in rows])


def main(spark, directory):
    url = "file://" + directory + "/rows"
    spark.range(10).toDF("n").coalesce(1).write.parquet(url)

    def reader():
        return make_batch_reader(url, num_epochs=1, shuffle_row_groups=False, reader_pool_type="dummy")

    with CountingLoader(reader()) as loader:
        own = [batch["n"].tolist() for batch in loader]
    with CountingLoader(reader(), collate_fn=collate) as second:
        collated = [batch.tolist() for batch in second]
    return [own, collated, loader.batches, second.batches]
