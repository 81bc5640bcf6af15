"""A training loop with DeepSpeed's engine; arguments: URL KIND PART [TAG].

KIND is "loader" for one of our loaders, or "training_data" for a loader made by DeepSpeed. TAG is
the checkpoint to resume from; without it, a checkpoint is written after the fourth step.
"""

import sys

import deepspeed
import torch
import torch.distributed as dist
from support import converter_of, record

from mdstorm_backend import StreamingDataset

url, kind, part = sys.argv[1:4]
resumed = sys.argv[4] if len(sys.argv) > 4 else None

# The dataset and the loader are created before the process group.
dataset = StreamingDataset(local=url, batch_size=100)
loader = converter_of(url).make_torch_dataloader(batch_size=100, num_epochs=1, cur_shard="auto")

model = torch.nn.Linear(1, 1)
deepspeed.init_distributed("gloo")
engine, _, own_loader, _ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    training_data=dataset if kind == "training_data" else None,
    config={"train_micro_batch_size_per_gpu": 100},
)
if resumed:
    _, client_state = engine.load_checkpoint("checkpoints", tag=resumed)
    loader.load_state_dict(client_state["loader"])

for epoch in range(2):
    for batch in own_loader or loader:
        record(batch["number"], f"{part}{epoch}")
        x, label = batch["x"][:, None].to(engine.device), batch["label"].to(engine.device)
        engine.backward(torch.nn.functional.mse_loss(engine(x)[:, 0], label.float()))
        engine.step()
        if engine.global_steps == 4 and not resumed:
            state = {"loader": loader.state_dict()}
            engine.save_checkpoint("checkpoints", tag="fourth", client_state=state)
dist.destroy_process_group()
