"""Run Lightning's Trainer in this process, and record the rows of each epoch."""

from pathlib import Path
from typing import Any

import torch
from tests.kit.frameworks import import_framework
from tests.kit.readers import continue_as_another_process
from tests.slow.trainers.programs.support import converter_of, keep_all, loader_of

from mdstorm import TransformSpec, make_batch_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm_backend import StreamingDataLoader, StreamingDataset

pl: Any = import_framework("lightning.pytorch")
StreamingDataModule: Any = import_framework("mdstorm.lightning").StreamingDataModule

EPOCHS = 4


class Model(pl.LightningModule):  # type: ignore[misc]
    """A model that records the rows of each epoch.

    Parameters
    ----------
    counts_in : str
        The hook that reads the Trainer's number of steps, so that the Trainer requests the training
        data: "setup", "configure_optimizers", or "" for none.
    """

    def __init__(self, counts_in: str = "") -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.counts_in = counts_in
        self.rows: dict[int, list[int]] = {}
        self.validated: dict[int, list[int]] = {}

    def setup(self, stage: str) -> None:
        if self.counts_in == "setup":
            assert self.trainer.estimated_stepping_batches

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        batches = batch if isinstance(batch, list) else [batch]
        for each in batches:
            self.rows.setdefault(self.current_epoch, []).extend(each["number"].tolist())
        return self.layer(batches[0]["x"][:, None]).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if not self.trainer.sanity_checking:
            self.validated.setdefault(self.current_epoch, []).extend(batch["number"].tolist())

    def predict_step(self, batch: Any, batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        if self.counts_in != "configure_optimizers":
            return optimizer
        steps = self.trainer.estimated_stepping_batches
        if steps == -1:  # loaders without a length
            return optimizer
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class LoaderPerEpoch(pl.LightningDataModule):  # type: ignore[misc]
    """Makes a new loader for each epoch if the Trainer reloads loaders."""

    def __init__(self, converter: Any) -> None:
        super().__init__()
        self.converter = converter

    def train_dataloader(self) -> Any:
        return self.converter.make_torch_dataloader(100, num_epochs=1, cur_shard="auto")


class OwnIteration(StreamingDataset):
    """A dataset that defines its own iteration, so that PyTorch makes the batches."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


def data_of(kind: str, url: str) -> dict[str, Any]:
    """Return the data arguments of `fit`, as a new process would create them."""
    converter = converter_of(url)
    continue_as_another_process()
    if kind == "recreated":
        return {"datamodule": LoaderPerEpoch(converter)}
    if kind.endswith("module"):
        options: dict[str, Any] = {"val": converter} if kind == "validated module" else {}
        if kind == "transformed module":  # a loader without a length
            options = {"transform_spec": TransformSpec(keep_all)}
        return {"datamodule": StreamingDataModule(train=converter, batch_size=100, **options)}
    if kind.endswith("reader"):
        seed = 1 if "seeded" in kind else None
        reader = make_batch_reader(url, ["number", "x"], num_epochs=1, shuffle_rows=True, seed=seed)
        make = BatchedDataLoader if kind.startswith("batches") else DataLoader
        return {"train_dataloaders": make(reader, batch_size=100)}
    if kind == "own iteration":
        dataset = OwnIteration(local=url, batch_size=100, shuffle=True)
        return {"train_dataloaders": StreamingDataLoader(dataset, batch_size=100)}
    if kind == "two loaders":
        return {"train_dataloaders": [loader_of(url, "converter"), loader_of(url, "converter")]}
    return {"train_dataloaders": loader_of(url, kind)}


def trainer_of(
    at: Path, epochs: int, *, save_at: int | None = None, callbacks: Any = (), **options: Any
) -> Any:
    """Make a Trainer that writes a checkpoint after each epoch, or after every `save_at` steps."""
    saved = {"filename": "{epoch}"} if save_at is None else {"every_n_train_steps": save_at}
    checkpoint = pl.callbacks.ModelCheckpoint(dirpath=at, save_top_k=-1, **saved)
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    return pl.Trainer(
        max_epochs=epochs,
        callbacks=[checkpoint, *callbacks],
        **{"accelerator": "gpu" if torch.cuda.is_available() else "cpu", **quiet, **options},
    )


def fit(data: dict[str, Any], at: Path, epochs: int = EPOCHS, **options: Any) -> list[list[int]]:
    """Train, and return the rows of each epoch; the list is empty for an epoch without training."""
    model = options.pop("model", None) or Model()
    resumed = options.pop("ckpt_path", None)
    trainer_of(at, epochs, **options).fit(model, **data, ckpt_path=resumed, weights_only=False)
    return [model.rows.get(epoch, []) for epoch in range(epochs)]
