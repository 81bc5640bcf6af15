"""Hugging Face's Trainer as it is, over a StreamingDataset; arguments: URL."""

import sys
from typing import Any

import torch
from support import record
from transformers import Trainer, TrainingArguments

from mdstorm_backend import StreamingDataset

(url,) = sys.argv[1:]


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, number: torch.Tensor, x: torch.Tensor, labels: torch.Tensor) -> Any:
        record(number)
        return {"loss": ((x * self.weight - labels.float()) ** 2).mean()}


Trainer(
    Model(),
    TrainingArguments(
        output_dir="trained",
        use_cpu=True,
        per_device_train_batch_size=100,
        num_train_epochs=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    ),
    train_dataset=StreamingDataset(local=url, shuffle=True, batch_size=100),
).train()
