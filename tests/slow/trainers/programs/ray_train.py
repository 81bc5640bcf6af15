"""Ray Train's TorchTrainer on this machine; arguments: URL PROCESSES PART [STATE].

STATE is a file to resume from. Without it, rank 0 writes the loader's state after the fourth batch
to ``state.json``.
"""

import json
import os
import sys
from pathlib import Path

import ray
import ray.train.torch
from support import converter_of, record

url, processes, part = sys.argv[1:4]
saved = Path(sys.argv[4]) if len(sys.argv) > 4 else None
records = Path(os.environ["MDSTORM_TEST_RECORDS"])

# Made before the launch, and sent to the workers as a pickle.
loader = converter_of(url).make_torch_dataloader(batch_size=100, num_epochs=1, cur_shard="auto")


def train():
    prepared = ray.train.torch.prepare_data_loader(loader)
    if saved is not None:
        loader.load_state_dict(json.loads(saved.read_text()))
    for epoch in range(2):
        for number, batch in enumerate(prepared, 1):
            record(batch["number"], f"{part}{epoch}")
            is_first = ray.train.get_context().get_world_rank() == 0
            if saved is None and is_first and (epoch, number) == (0, 4):
                (records / "state.json").write_text(json.dumps(loader.state_dict()))


ray.init(num_cpus=4, include_dashboard=False)
ray.train.torch.TorchTrainer(
    train,
    scaling_config=ray.train.ScalingConfig(num_workers=int(processes)),
    run_config=ray.train.RunConfig(storage_path=str(records / "ray")),
).fit()
