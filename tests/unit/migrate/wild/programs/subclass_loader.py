import math

import torch
from petastorm.pytorch import DataLoader, decimal_friendly_collate
from petastorm import make_batch_reader


class SizedDataLoader(DataLoader):
    """Petastorm loaders have no len(), our trainer needs one"""

    def __init__(self, reader, batch_size=1, n_rows=0, **kwargs):
        super(SizedDataLoader, self).__init__(reader, batch_size=batch_size, **kwargs)
        self._n_rows = n_rows

    def __len__(self):
        return int(math.ceil(self._n_rows / self.batch_size))

    def __iter__(self):
        for batch in super().__iter__():
            yield batch["id"], batch["y"].to(torch.float64)


def collate(rows):
    rows = [r for r in rows if r["id"] != 3]
    return decimal_friendly_collate(rows)


def main(spark, directory):
    spark.range(0, 7, 1, 1).selectExpr("id", "float(id) as y").write.parquet(directory + "/t")
    with SizedDataLoader(make_batch_reader("file://" + directory + "/t"), batch_size=3, n_rows=7,
                         collate_fn=collate) as loader:
        return [len(loader)] + [[x.tolist(), y.tolist(), str(y.dtype)] for x, y in loader]
