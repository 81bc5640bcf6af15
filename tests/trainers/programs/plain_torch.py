"""A loop of the user's own; arguments: URL CUR_SHARD."""

import sys

import torch.distributed as dist
from support import converter_of, record

url, cur_shard = sys.argv[1:]

loader = converter_of(url).make_torch_dataloader(
    batch_size=100, num_epochs=1, shuffle_row_groups=True, cur_shard=cur_shard
)
dist.init_process_group("gloo")
for batch in loader:
    record(batch["number"])
dist.destroy_process_group()
