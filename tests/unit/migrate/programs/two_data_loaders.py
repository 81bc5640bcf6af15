"""Petastorm's `DataLoader` alongside PyTorch's."""
import pyarrow  # noqa: F401  (before petastorm, on purpose)
from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader as PetaLoader
from torch.utils.data import DataLoader, TensorDataset


def main(spark, directory):
    import torch

    spark.range(30).selectExpr("id", "cast(id * 2 AS float) AS ring").coalesce(1) \
        .write.parquet("file://" + directory + "/oaks")
    plain = DataLoader(TensorDataset(torch.arange(4)), batch_size=2)
    sizes = [len(rows) for rows, in plain]
    with PetaLoader(make_batch_reader("file://" + directory + "/oaks", num_epochs=1, reader_pool_type="dummy",
                                      shuffle_row_groups=False), batch_size=12) as ld:
        for rows in ld:
            sizes.append([tuple(rows["ring"].shape), float(rows["ring"][0])])
    return sizes
