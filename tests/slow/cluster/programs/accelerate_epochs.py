"""Count the rows of three epochs in an Accelerate training loop. Argument: the URL."""

import sys

import torch
from accelerate import Accelerator

from mdstorm.spark import make_spark_converter

accelerator = Accelerator(cpu=True)
converter = make_spark_converter(sys.argv[1])
loader = converter.make_torch_dataloader(
    batch_size=500, num_epochs=1, shuffling_queue_capacity=5_000, seed=7
)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    seen = torch.zeros(len(converter), dtype=torch.int32)
    for batch in loader:
        loss = torch.nn.functional.mse_loss(model(batch["x"]).squeeze(), batch["y"])
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        seen[batch["id"]] += 1
    seen = accelerator.reduce(seen)
    lost, doubled = int((seen == 0).sum()), int((seen > 1).sum())
    if accelerator.is_main_process:
        print(f"epoch {epoch}: {len(seen):,} rows, {lost} lost, {doubled} doubled")
accelerator.end_training()
