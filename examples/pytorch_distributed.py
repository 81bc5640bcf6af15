"""Two processes train one model, each on its share of the rows.

    python examples/pytorch_distributed.py

The ranks synchronise at every batch, so all of them must have the same number of batches or the
longest would wait for ever. `cur_shard` and `shard_count` give every row to exactly one rank and
the same number of batches to all: a rank that is a row short splits its last batch.
"""

from __future__ import annotations

import logging
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from _support import spark_session
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mdstorm.spark import SparkDatasetConverter, make_spark_converter

RANKS = 2
ROWS = 21
BATCH_SIZE = 5


def train(rank: int, converter: SparkDatasetConverter, rendezvous: str) -> None:
    """Run one rank. Gloo and a file stand for NCCL and the launcher of a cluster."""
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=RANKS)
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    rows, sizes = [], []
    with converter.make_torch_dataloader(
        batch_size=BATCH_SIZE, num_epochs=1, cur_shard=rank, shard_count=RANKS
    ) as loader:
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch["x"].unsqueeze(1)).squeeze(1), batch["y"])
            optimizer.zero_grad()
            loss.backward()  # here the ranks wait for each other
            optimizer.step()
            rows += batch["id"].tolist()
            sizes.append(len(batch["id"]))

    slope = model.module.weight.item()
    outcome = f"rows {rows} in batches of {sizes}, slope {slope:.4f}"
    outcomes = [""] * RANKS
    dist.all_gather_object(outcomes, outcome)
    if rank == 0:  # lines of several processes would run into each other
        for number, line in enumerate(outcomes):
            print(f"rank {number}: {line}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    logging.getLogger("mdstorm").setLevel(logging.ERROR)  # as intended, doubles become float32
    with tempfile.TemporaryDirectory() as folder, spark_session(folder) as spark:
        rows = spark.range(ROWS).selectExpr("id", f"id / {ROWS} AS x", f"3 * id / {ROWS} AS y")
        converter = make_spark_converter(rows.repartition(4))
        # The converter pickles: it only says where the shards lie, and how many rows they hold.
        # Unlike "spawn", "forkserver" ends a rank without tearing its interpreter down, which would
        # abort if a thread of Gloo had not finished yet.
        mp.start_processes(
            train,
            (converter, f"file://{folder}/rendezvous"),
            nprocs=RANKS,
            start_method="forkserver",
        )
        converter.delete()


if __name__ == "__main__":
    main()
