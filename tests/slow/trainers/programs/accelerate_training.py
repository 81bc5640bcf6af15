"""Train with Accelerate, stop in the second epoch, and resume; arguments: URL_OF_1008_ROWS."""

import sys
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import gather_object
from support import converter_of, record

from mdstorm_backend import StreamingDataLoader, StreamingDataset

(url,) = sys.argv[1:]
EPOCHS, BATCH_SIZE, ACCUMULATED = 2, 63, 3


class Training:
    """The objects in a training script; a new instance is like a new run."""

    def __init__(self, part: str, loader: Any, **options: Any) -> None:
        self.part = part
        self.accelerator = Accelerator(
            cpu=not torch.cuda.is_available(),
            gradient_accumulation_steps=ACCUMULATED,
            dataloader_config=DataLoaderConfiguration(**options),
        )
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)

    def step(self, batch: Any, epoch: int) -> None:
        record(batch["number"], f"{self.part}-epoch{epoch}")
        with self.accelerator.accumulate(self.model):
            loss = self.model(batch["x"][:, None]).mean()
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            record([self.accelerator.sync_gradients], f"synced-{self.part}-epoch{epoch}")


def seedless_loader() -> Any:
    return converter_of(url).make_torch_dataloader(
        batch_size=BATCH_SIZE, num_epochs=1, shuffle_rows=True
    )


def elastic_loader() -> Any:
    dataset = StreamingDataset(local=url, shuffle=True, batch_size=BATCH_SIZE)
    return StreamingDataLoader(dataset, batch_size=BATCH_SIZE)


def train_and_stop(training: Training, steps: int) -> None:
    for epoch in range(EPOCHS):
        for number, batch in enumerate(training.loader, start=1):
            training.step(batch, epoch)
            if (epoch, number) == (1, steps):
                state = training.loader.state_dict()
                assert all(state == other for other in gather_object([state]))
                training.accelerator.save_state(training.part)
                return


STOP = 5
for part, make in (("exact", seedless_loader), ("elastic", elastic_loader)):
    # Resume from the loader states.
    stateful = {"use_stateful_dataloader": True}
    train_and_stop(Training(f"state-{part}", make(), **stateful), STOP)
    training = Training(f"state-{part}", make(), **stateful)
    training.accelerator.load_state(training.part)
    for batch in training.loader:
        training.step(batch, 1)

    # Resume by skipping batches.
    train_and_stop(Training(f"skip-{part}", make()), STOP)
    training = Training(f"skip-{part}", make())
    training.accelerator.load_state(training.part)
    training.loader.set_epoch(1)
    for batch in training.accelerator.skip_first_batches(training.loader, STOP):
        training.step(batch, 1)
    for batch in training.loader:
        training.step(batch, 2)
training.accelerator.end_training()
