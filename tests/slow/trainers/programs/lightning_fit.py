"""Lightning's Trainer over a loader that was created before the launch; see `arguments`."""

import argparse
import importlib

import torch
from support import converter_of, loader_of, record

arguments = argparse.ArgumentParser()
arguments.add_argument("url")
arguments.add_argument("kind", help="what is passed to fit: module, or a kind of `loader_of`")
arguments.add_argument("--strategy", default="auto")
arguments.add_argument("--devices", type=int, default=1)
arguments.add_argument("--nodes", type=int, default=1)
arguments.add_argument("--epochs", type=int, default=1)
arguments.add_argument("--save-at", type=int, help="the step after which to write a checkpoint")
arguments.add_argument("--save-epochs", type=bool, help="write a checkpoint after each epoch")
arguments.add_argument("--resume", help="path to a checkpoint")
arguments.add_argument("--part", default="train", help="the record, followed by the epoch")
arguments.add_argument("--schedule", type=bool, help="let the learning rate follow one cycle")
arguments.add_argument("--count-steps", type=bool, help="record the estimated and taken steps")
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
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        if given.count_steps:
            record([self.trainer.estimated_stepping_batches], "estimated_steps")
        if not given.schedule:
            return optimizer
        # Lightning requests the training data here, before it loads the data's position.
        steps = self.trainer.estimated_stepping_batches
        if steps == -1:  # for data without a length
            return optimizer
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
        return [optimizer], [{"scheduler": cycle, "interval": "step"}]


def data_module(package):
    """Make a data module over four converters."""
    front = importlib.import_module(f"mdstorm.{package.partition('.')[0]}")
    converter = converter_of(given.url)
    return front.StreamingDataModule(
        train=converter, val=converter, test=converter, predict=converter, batch_size=100
    )


if __name__ == "__main__":
    saved = {"every_n_train_steps": given.save_at}
    if given.save_epochs:
        saved = {"filename": "{epoch}"}
    callbacks = []
    if given.save_at or given.save_epochs:
        callbacks = [pl.callbacks.ModelCheckpoint(dirpath=".", save_top_k=-1, **saved)]
    trainer = pl.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
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
        trainer.fit(model, loader_of(given.url, given.kind), ckpt_path=given.resume)
    if given.count_steps:
        record([trainer.global_step], "steps")
