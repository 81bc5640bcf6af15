"""Rows per second of trainers' loaders, with 26 float columns and batches of 1,024 rows.

    python benchmarks/measure_trainers.py [--rows 1000000] [--batch-size 1024]

Requires Accelerate and transformers: see constraints/trainers.txt. Prints one line per loader with
the median over several passes, and its ratio to our own loader. The last lines are whole training
runs with the Trainer, for a model with a single weight: with the mixin, and with batches from
memory, which shows how long the Trainer's own steps take.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from accelerate import Accelerator
from measuring import arguments
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from mdstorm.transformers import StreamingTrainerMixin
from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset

COLUMNS = [f"f{number:02}" for number in range(26)]
PASSES = 7


class Model(torch.nn.Module):
    """A model with a single weight, which accepts all columns."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, **columns: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.weight.sum()}


class StreamingTrainer(StreamingTrainerMixin, Trainer):
    """A Trainer as a user would define it."""


class MemoryTrainer(Trainer):
    """Trains on a list of batches."""

    def get_train_dataloader(self) -> Any:
        return DataLoader(self.train_dataset, batch_size=None)


def trainer_of(class_: type[Trainer], dataset: Any, batch_size: int, directory: str) -> Trainer:
    options = TrainingArguments(
        output_dir=directory,
        use_cpu=True,
        per_device_train_batch_size=batch_size,
        num_train_epochs=1,
        save_strategy="no",
        logging_strategy="no",
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
    )
    return class_(Model(), options, train_dataset=dataset)


def write(directory: Path, rows: int) -> None:
    values = np.random.default_rng(1).random(rows, dtype=np.float32)
    with MDSWriter(out=str(directory)) as writer:
        writer.write_batch(pa.table(dict.fromkeys(COLUMNS, values)))


def read(loader: Any) -> int:
    """Read one pass, accessing the first and last column of each batch."""
    rows = 0
    for batch in loader:
        rows += batch[COLUMNS[0]].shape[0]
        assert batch[COLUMNS[-1]].shape[0] == batch[COLUMNS[0]].shape[0]
    return rows


def rates_of(passes: dict[str, Callable[[], object]], rows: int) -> dict[str, float]:
    """Run the loaders in turn, and return each one's median rows per second after a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(1 + PASSES):
        for name, run in passes.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: rows / statistics.median(took[1:]) for name, took in seconds.items()}


def main() -> None:
    options = arguments(__doc__)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        write(data, options.rows)

        def dataset() -> StreamingDataset:
            return StreamingDataset(local=str(data), shuffle=True, batch_size=options.batch_size)

        def loader() -> StreamingDataLoader:
            return StreamingDataLoader(dataset(), batch_size=options.batch_size)

        ours, prepared = loader(), Accelerator(cpu=True).prepare(loader())
        settings = (options.batch_size, directory)
        trainer = trainer_of(StreamingTrainer, dataset(), *settings)
        from_memory = trainer_of(MemoryTrainer, list(loader()), *settings)
        of_trainer = trainer.get_train_dataloader()
        rates = rates_of(
            {
                "our loader": lambda: read(ours),
                "prepared by Accelerate": lambda: read(prepared),
                "the Trainer's, with the mixin": lambda: read(of_trainer),
                "training, with the mixin": trainer.train,
                "training, batches in memory": from_memory.train,
            },
            options.rows,
        )
    for name, rate in rates.items():
        print(f"{name:32} {rate:12,.0f} rows/s {rate / rates['our loader']:6.2f}")


if __name__ == "__main__":
    main()
