"""Lightning's Trainer over a loader that was made before the launch; see `arguments`."""

import argparse
import importlib

import torch
from support import converter_of, record

from mdstorm import TransformSpec
from mdstorm_backend import StreamingDataLoader, StreamingDataset

arguments = argparse.ArgumentParser()
arguments.add_argument("url")
arguments.add_argument("kind", help="what is handed to fit, a name of `loader_of`")
arguments.add_argument("--strategy", default="auto")
arguments.add_argument("--devices", type=int, default=1)
arguments.add_argument("--nodes", type=int, default=1)
arguments.add_argument("--epochs", type=int, default=1)
arguments.add_argument("--save-at", type=int, help="the step after which to write a checkpoint")
arguments.add_argument("--save-epochs", action="store_true", help="write one after each epoch")
arguments.add_argument("--resume", help="path of a checkpoint")
arguments.add_argument("--part", default="train", help="the record, followed by the epoch")
arguments.add_argument("--package", default="lightning.pytorch")
given = arguments.parse_args()

pl = importlib.import_module(given.package)


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def loss(self, batch, part):
        record(batch["number"], part)
        return torch.nn.functional.mse_loss(
            self.layer(batch["x"][:, None])[:, 0], batch["label"].float()
        )

    def training_step(self, batch, batch_idx):
        return self.loss(batch, f"{given.part}{self.current_epoch}")

    def validation_step(self, batch, batch_idx):
        if not self.trainer.sanity_checking:
            self.loss(batch, f"{given.part}{self.current_epoch}_validation")

    def test_step(self, batch, batch_idx):
        self.loss(batch, "test")

    def predict_step(self, batch, batch_idx):
        self.loss(batch, "predict")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def keep_all(frame):
    return frame


def loader_of(kind):
    """Make what is handed to `fit`."""
    converter = converter_of(given.url)
    if kind == "converter":
        return converter.make_torch_dataloader(batch_size=100, num_epochs=1, cur_shard="auto")
    if kind == "transform":  # which might drop rows, so that there is no length
        return converter.make_torch_dataloader(
            batch_size=100, num_epochs=1, cur_shard="auto", transform_spec=TransformSpec(keep_all)
        )
    if kind == "all":  # Petastorm's meaning of no shard arguments, and a seed drawn at random
        return converter.make_torch_dataloader(batch_size=100, num_epochs=1, shuffle_rows=True)
    if kind == "explicit":
        return converter.make_torch_dataloader(
            batch_size=100, num_epochs=1, cur_shard=0, shard_count=2
        )
    dataset = StreamingDataset(local=given.url, batch_size=100, shuffle=True)
    if kind == "plain":
        return torch.utils.data.DataLoader(dataset, batch_size=100, num_workers=2)
    assert kind == "streaming"
    return StreamingDataLoader(dataset, batch_size=100, num_workers=2)


def data_module(package):
    """Make a data module over four converters."""
    front = importlib.import_module(f"mdstorm.{package.partition('.')[0]}")
    converter = converter_of(given.url)
    return front.StreamingDataModule(
        train=converter, val=converter, test=converter, predict=converter, batch_size=100
    )


if __name__ == "__main__":
    callbacks = []
    if given.save_at:
        callbacks = [
            pl.callbacks.ModelCheckpoint(
                dirpath=".", every_n_train_steps=given.save_at, save_top_k=-1
            )
        ]
    if given.save_epochs:
        callbacks = [pl.callbacks.ModelCheckpoint(dirpath=".", filename="{epoch}", save_top_k=-1)]
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=given.devices,
        num_nodes=given.nodes,
        strategy=given.strategy,
        max_epochs=given.epochs,
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Model()
    if given.kind == "module":
        module = data_module(given.package)
        trainer.fit(model, datamodule=module, ckpt_path=given.resume)
        if not given.resume:
            trainer.test(model, datamodule=module)
            trainer.predict(model, datamodule=module)
    else:
        trainer.fit(model, loader_of(given.kind), ckpt_path=given.resume)
