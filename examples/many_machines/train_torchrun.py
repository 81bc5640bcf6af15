"""Train on several hosts, with several processes on each; torchrun starts the processes.

On each host::

    torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 \
        train_torchrun.py s3://bucket/numbers s3://bucket/checkpoint.pt

With ``--nnodes=1:2`` and ``--max-restarts=3`` training continues when a host is lost, and with both
when it is back. Started again, on any number of hosts, it resumes from the last checkpoint.
"""

import sys
from datetime import timedelta

import fsspec
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from mdstorm.spark import make_spark_converter

EPOCHS = 3
BATCHES_PER_CHECKPOINT = 10

url, checkpoint_url = sys.argv[1:]
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()

converter = make_spark_converter(url)  # a dataset that Spark has written
loader = converter.make_torch_dataloader(
    batch_size=500, num_epochs=1, cur_shard="auto", shuffling_queue_capacity=5_000, seed=7
)
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
#: How often this process has read each row in the epoch. At the end of the epoch, the sum over all
#: processes must be 1 for each row.
seen = torch.zeros(len(converter), dtype=torch.int32)
first = 0


def save_checkpoint(epoch):
    total = seen.clone()
    dist.all_reduce(total)
    if total.all():
        # The epoch is complete: the loop below saves a checkpoint for the start of the next one.
        return
    if rank == 0:  # the state of one rank is valid for all ranks
        checkpoint = {
            "epoch": epoch,
            "loader": loader.state_dict(),
            "model": model.module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "seen": total,
        }
        with fsspec.open(checkpoint_url, "wb") as file:
            torch.save(checkpoint, file)
    dist.barrier()


files, path = fsspec.core.url_to_fs(checkpoint_url)
if files.exists(path):
    with files.open(path, "rb") as file:
        checkpoint = torch.load(file, weights_only=True)
    first = checkpoint["epoch"]
    loader.load_state_dict(checkpoint["loader"])
    model.module.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    if rank == 0:
        seen += checkpoint["seen"]
        print(f"continues in epoch {first}, after {int(seen.sum()):,} rows", flush=True)

for epoch in range(first, EPOCHS):
    for number, batch in enumerate(loader, 1):
        loss = torch.nn.functional.mse_loss(model(batch["x"]).squeeze(), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen[batch["id"]] += 1
        if number % BATCHES_PER_CHECKPOINT == 0:
            save_checkpoint(epoch)
    dist.all_reduce(seen)
    if rank == 0:
        lost, doubled = int((seen == 0).sum()), int((seen > 1).sum())
        print(f"epoch {epoch}: {len(seen):,} rows, {lost} lost, {doubled} doubled", flush=True)
    seen.zero_()
    save_checkpoint(epoch + 1)

model = None  # free the model before its process group is destroyed
dist.destroy_process_group()
