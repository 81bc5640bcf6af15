"""Run the Python code in a section of docs/trainers.md; arguments: URL SECTION.

Names from earlier in the docs, such as `converter` and `model`, are already defined.
"""

import re
import sys
from pathlib import Path
from typing import Any

import torch
from support import converter_of

PAGE = Path(__file__).parents[4] / "docs" / "trainers.md"

url, section = sys.argv[1:]


class Linear(torch.nn.Module):
    """A model that takes the columns by name, as Hugging Face's Trainer passes them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, age: torch.Tensor, fare: torch.Tensor, survived: torch.Tensor) -> Any:
        predicted = self.layer(torch.stack([age, fare], 1))[:, 0]
        return {"loss": ((predicted - survived) ** 2).mean(), "logits": predicted}


def names_of_accelerate() -> dict[str, Any]:
    model = Linear()
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}


def names_of_torchdata() -> dict[str, Any]:
    from mdstorm_backend import StreamingDataset

    return {"dataset": StreamingDataset(local=url)}


def names_of_transformers() -> dict[str, Any]:
    from transformers import TrainingArguments

    args = TrainingArguments(
        "output", use_cpu=True, num_train_epochs=1, report_to="none", label_names=["survived"]
    )
    return {"model": Linear(), "args": args, "other_converter": converter_of(url)}


def names_of_keras() -> dict[str, Any]:
    import keras

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(loss="mse")
    return {"model": model}


def names_of_lightning() -> dict[str, Any]:
    import lightning.pytorch as pl

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = Linear()

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.linear(**batch)

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.linear(**batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        callbacks=[pl.callbacks.ModelCheckpoint(dirpath=".", save_last=True)],
    )
    converters = {f"{split}_converter": converter_of(url) for split in ("train", "val")}
    return {"model": Model(), "trainer": trainer, **converters}


MADE_BEFORE = {
    "torchdata": names_of_torchdata,
    "Accelerate": names_of_accelerate,
    "Hugging Face Trainer": names_of_transformers,
    "Keras and TensorFlow": names_of_keras,
    "Lightning": names_of_lightning,
}

_, _, text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")
names = {"__name__": section, "converter": converter_of(url), **MADE_BEFORE[section]()}
blocks = re.findall(r"^```python\n(.*?)^```$", text.partition("\n## ")[0], re.M | re.S)
assert blocks
for block in blocks:
    exec(compile(block, PAGE, "exec"), names)
