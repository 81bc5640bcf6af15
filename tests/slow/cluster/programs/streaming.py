"""Count the rows of three epochs of a StreamingDataset over all ranks.

Arguments: the URL, the order, and the limit of the cache.
"""

import sys

import torch
import torch.distributed as dist

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

url, order, limit = sys.argv[1:]
elastic = {"shuffle": True, "num_canonical_nodes": 2, "shuffle_seed": 7}
exact = {"order": ExactOrder(shuffle_shards=True, shuffle_rows=True, seed=7)}

dist.init_process_group("gloo")
dataset = StreamingDataset(
    remote=url, batch_size=500, cache_limit=limit, **(exact if order == "exact" else elastic)
)
for epoch in range(3):
    seen = torch.zeros(dataset.size, dtype=torch.int32)
    for batch in StreamingDataLoader(dataset, batch_size=500):
        seen[batch["id"]] += 1
    dist.all_reduce(seen)
    if dist.get_rank() == 0:
        lost, doubled = int((seen == 0).sum()), int((seen > 1).sum())
        print(f"epoch {epoch}: {len(seen):,} rows, {lost} lost, {doubled} doubled", flush=True)
dist.destroy_process_group()
