"""Lightning's Trainer in this process, and the rows of each epoch that it trained on."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainers.programs.support import converter_of, loader_of

from mdstorm._readers.options import _next_epochs

pl: Any = pytest.importorskip("lightning.pytorch")
StreamingDataModule: Any = pytest.importorskip("mdstorm.lightning").StreamingDataModule

EPOCHS = 4


class Model(pl.LightningModule):  # type: ignore[misc]
    """Keeps the rows of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.rows: dict[int, list[int]] = {}

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.rows.setdefault(self.current_epoch, []).extend(batch["number"].tolist())
        return self.layer(batch["x"][:, None]).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class MadeAnew(pl.LightningDataModule):  # type: ignore[misc]
    """Makes a loader for each epoch, where the Trainer is told to ask for it."""

    def __init__(self, converter: Any) -> None:
        super().__init__()
        self.converter = converter

    def train_dataloader(self) -> Any:
        return self.converter.make_torch_dataloader(100, num_epochs=1, cur_shard="auto")


def data_of(kind: str, url: str) -> dict[str, Any]:
    """Make what `fit` is given, as another process would."""
    converter = converter_of(url)
    _next_epochs.clear()
    if kind == "made anew":
        return {"datamodule": MadeAnew(converter)}
    if kind in ("module", "validated module"):
        splits = {"val": converter} if kind == "validated module" else {}
        return {"datamodule": StreamingDataModule(train=converter, batch_size=100, **splits)}
    return {"train_dataloaders": loader_of(url, kind)}


def trainer_of(at: Path, epochs: int, **options: Any) -> Any:
    checkpoint = pl.callbacks.ModelCheckpoint(dirpath=at, filename="{epoch}", save_top_k=-1)
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    return pl.Trainer(
        accelerator="cpu", max_epochs=epochs, callbacks=[checkpoint], **quiet, **options
    )


def fit(data: dict[str, Any], at: Path, epochs: int = EPOCHS, **options: Any) -> list[list[int]]:
    """Return the rows of each epoch, none for those that were not trained on."""
    model, resumed = Model(), options.pop("ckpt_path", None)
    trainer_of(at, epochs, **options).fit(model, **data, ckpt_path=resumed, weights_only=False)
    return [model.rows.get(epoch, []) for epoch in range(epochs)]
