"""Train in a mesh of data- and tensor-parallel ranks; arguments: URL DP TP STEPS STATE NEXT_STATE.

FSDP2 shards the model along the data-parallel dimension. ``torch.distributed.checkpoint`` saves the
model together with the loader state.
"""

import sys
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from support import converter_of, record
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

url, data, tensor, steps, state, next_state = sys.argv[1:]

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (int(data), int(tensor)), mesh_dim_names=("dp", "tp"))
loader = converter_of(url).make_torch_dataloader(
    batch_size=50, num_epochs=1, shuffle_rows=True, world=(mesh, "dp")
)
torch.manual_seed(1)
model = fully_shard(torch.nn.Linear(1, 1), mesh=mesh["dp"])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
if Path(state).exists():
    saved = {"model": get_model_state_dict(model), "loader": loader.state_dict()}
    dcp.load(saved, checkpoint_id=state)
    set_model_state_dict(model, saved["model"])
    loader.load_state_dict(saved["loader"])
for batch in islice(loader, int(steps) or None):
    record(batch["number"])
    model(batch["number"].float()[:, None]).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
found = {"model": get_model_state_dict(model), "loader": loader.state_dict()}
dcp.save(found, checkpoint_id=next_state)
dist.destroy_process_group()
