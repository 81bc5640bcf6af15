from petastorm import make_reader as _make_reader, make_batch_reader as _make_batch_reader
from petastorm.pytorch import DataLoader as PetaDataLoader
from torch.utils.data import DataLoader, TensorDataset
import torch

make_reader = None
make_batch_reader = _make_batch_reader
Loader = PetaDataLoader if True else DataLoader


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    own = [b[0].tolist() for b in DataLoader(TensorDataset(torch.arange(4)), batch_size=4, shuffle=False)]
    with Loader(make_batch_reader("file://" + directory + "/t"), batch_size=4, shuffling_queue_capacity=3) as l:
        peta = sorted(i for b in l for i in b["id"].tolist())
    return {"own": own, "peta": peta, "module": DataLoader.__module__.split(".")[0]}
