"""A user-written loop that is stopped and resumed; arguments: URL STEPS STATE NEXT_STATE.

Rank 0 saves its state after STEPS steps, or after all steps for 0. If the file STATE exists, every
rank resumes from it.
"""

import sys
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
from support import converter_of, record

url, steps, state, next_state = sys.argv[1:]

loader = converter_of(url).make_torch_dataloader(
    batch_size=50, num_epochs=1, shuffle_row_groups=True, shuffle_rows=True, cur_shard="auto"
)
dist.init_process_group("gloo")
if Path(state).exists():
    loader.load_state_dict(torch.load(state, weights_only=True))
for batch in islice(loader, int(steps) or None):
    record(batch["number"])
if dist.get_rank() == 0:
    torch.save(loader.state_dict(), next_state)
dist.destroy_process_group()
