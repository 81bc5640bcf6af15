"""Composer's Trainer; arguments: URL KIND DURATION PART [CHECKPOINT].

KIND is a kind of `loader_of`. Without CHECKPOINT, checkpoints are written after every fourth batch
and after every epoch.
"""

import sys

import torch
from composer import Callback, ComposerModel, Trainer
from composer.callbacks import CheckpointSaver
from support import loader_of, record

url, kind, duration, part = sys.argv[1:5]
checkpoint = sys.argv[5] if len(sys.argv) > 5 else None


class Model(ComposerModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, batch):
        return self.layer(batch["x"][:, None])[:, 0]

    def loss(self, outputs, batch):
        return torch.nn.functional.mse_loss(outputs, batch["label"].float())


class Recorder(Callback):
    def batch_start(self, state, logger):  # the whole batch; forward may get only a part of it
        record(state.batch["number"], f"{part}{int(state.timestamp.epoch)}")


def checkpoints(save_interval):
    names = {"folder": ".", "filename": "{epoch}-{batch}.pt", "latest_filename": None}
    return CheckpointSaver(**names, save_interval=save_interval, overwrite=True)


model = Model()
trainer = Trainer(
    model=model,
    train_dataloader=loader_of(url, kind),
    optimizers=torch.optim.SGD(model.parameters(), lr=0.1),
    max_duration=duration,
    callbacks=[Recorder(), *([] if checkpoint else map(checkpoints, ("4ba", "1ep")))],
    device="cpu",
    load_path=checkpoint,
    progress_bar=False,
    seed=7,
)
trainer.fit()
