"""Train with Ray Train, with one worker on each of two hosts in a Ray cluster.

On the first host, and then on every other one::

    ray start --head --port=6379
    ray start --address=HOST:6379

On any of them::

    python train_ray.py s3://bucket/numbers s3://bucket/results
"""

import sys

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

EPOCHS = 3


def train(settings):
    """Train in one of Ray's workers; every worker calls this function."""
    import os
    import tempfile

    import ray.train.torch
    import torch

    from mdstorm.spark import make_spark_converter

    converter = make_spark_converter(settings["url"])  # a dataset that Spark has written
    loader = converter.make_torch_dataloader(
        batch_size=500, num_epochs=1, cur_shard="auto", shuffling_queue_capacity=5_000
    )
    batches = ray.train.torch.prepare_data_loader(loader)
    model = ray.train.torch.prepare_model(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        seen = torch.zeros(len(converter), dtype=torch.int32)
        for batch in batches:
            loss = torch.nn.functional.mse_loss(model(batch["x"]).squeeze(), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen[batch["id"]] += 1
        torch.distributed.all_reduce(seen)
        lost, doubled = int((seen == 0).sum()), int((seen > 1).sum())
        metrics = {"rows": len(seen), "lost": lost, "doubled": doubled}
        with tempfile.TemporaryDirectory() as folder:
            state = {"loader": loader.state_dict(), "model": model.state_dict()}
            torch.save(state, os.path.join(folder, "state.pt"))
            # The state of one rank is valid for all ranks.
            is_first = ray.train.get_context().get_world_rank() == 0
            checkpoint = ray.train.Checkpoint.from_directory(folder) if is_first else None
            ray.train.report(metrics, checkpoint=checkpoint)


url, results = sys.argv[1:]
ray.init(address="auto")
trainer = TorchTrainer(
    train,
    train_loop_config={"url": url},
    scaling_config=ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
    run_config=RunConfig(storage_path=results),  # a store that all hosts can reach
)
metrics = trainer.fit().metrics
print("epoch {}: {rows:,} rows, {lost} lost, {doubled} doubled".format(EPOCHS - 1, **metrics))
