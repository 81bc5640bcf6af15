import torch
from torch.utils.data import IterableDataset, DataLoader
from petastorm import make_batch_reader, TransformSpec
import numpy as np


class PetastormDataset(IterableDataset):
    """wraps a reader so that torch's own DataLoader can be used"""

    def __init__(self, url, feature_cols, rank=0, world=1):
        self.url, self.cols, self.rank, self.world = url, feature_cols, rank, world

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        shard, count = self.rank, self.world
        if info is not None:
            shard, count = self.rank * info.num_workers + info.id, self.world * info.num_workers
        kw = dict(cur_shard=shard, shard_count=count) if count > 1 else {}
        with make_batch_reader(self.url, schema_fields=self.cols, workers_count=1, shuffle_row_groups=False, **kw) as reader:
            for group in reader:
                columns = [torch.as_tensor(np.array(getattr(group, c))) for c in self.cols]
                yield from zip(*columns)


def main(spark, directory):
    spark.range(0, 8, 1, 2).selectExpr("id", "float(id) as x").write.parquet(directory + "/t")
    url = "file://" + directory + "/t"
    one = sorted(int(i) for i, x in PetastormDataset(url, ["id", "x"]))
    two = [sorted(i for b in DataLoader(PetastormDataset(url, ["id", "x"], r, 2), batch_size=3) for i in b[0].tolist()) for r in (0, 1)]
    return {"one": one, "union": sorted(two[0] + two[1]), "sizes": sorted(map(len, two))}
