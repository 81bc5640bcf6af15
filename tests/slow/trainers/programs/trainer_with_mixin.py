"""Hugging Face's Trainer with or without the mixin; arguments: URL URL_OF_1008_ROWS PART….

Each run with the mixin is stopped in its second epoch, and resumed by a new Trainer.
"""

import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist
from support import converter_of, record
from transformers import DefaultDataCollator, Trainer, TrainerCallback, TrainingArguments

from mdstorm.transformers import StreamingTrainerMixin
from mdstorm_backend import StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError

url, even_url, *parts = sys.argv[1:]


class Model(torch.nn.Module):
    """A model that predicts the row number, which is one of its inputs."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.part = part
        self.passes = 0

    def forward(self, number: torch.Tensor, x: torch.Tensor, labels: torch.Tensor) -> Any:
        if self.training:
            record(number, self.part)
        loss = ((x * self.weight - labels.float()) ** 2).mean()
        return {"loss": loss, "logits": number}


class MyTrainer(StreamingTrainerMixin, Trainer):
    """A user's Trainer."""


class Stop(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop = state.global_step == self.step


def arguments(part: str, **options: Any) -> TrainingArguments:
    return TrainingArguments(
        output_dir=part,
        use_cpu=not torch.cuda.is_available(),
        per_device_train_batch_size=63,
        per_device_eval_batch_size=100,
        num_train_epochs=1 if part == "alone" else 2,
        save_strategy="steps",
        report_to="none",
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
        **options,
    )


def train(part: str, make: Any, collator: Any = None, **options: Any) -> None:
    """Train for about 3/4 of the steps, then resume in a new Trainer; the model records rows."""

    def trainer_of(stop: int, *callbacks: TrainerCallback) -> MyTrainer:
        return MyTrainer(
            Model(part),
            arguments(part, save_steps=stop, **options),
            train_dataset=make(),
            data_collator=collator,
            callbacks=list(callbacks),
        )

    trainer = trainer_of(1000)
    steps = len(trainer.get_train_dataloader()) // trainer.args.gradient_accumulation_steps
    stop = steps + steps // 2 - 1
    trainer = trainer_of(stop, Stop(stop))
    trainer.train()
    assert trainer.state.global_step == stop
    trainer = trainer_of(stop)
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.global_step == 2 * steps
    assert trainer.state.epoch == 2


def dataset() -> StreamingDataset:
    return StreamingDataset(local=even_url, shuffle=True, batch_size=63)


def loader() -> Any:
    return converter_of(even_url).make_torch_dataloader(
        batch_size=63, num_epochs=1, shuffle_rows=True
    )


def converter() -> Any:
    return converter_of(even_url)


if parts == ["alone"]:
    alone = StreamingDataset(local=url, shuffle=True, batch_size=63)
    Trainer(Model("alone"), arguments("alone"), train_dataset=alone).train()
    sys.exit()
for part, make, options in (
    ("converter", converter, {}),
    ("accumulated", converter, {"gradient_accumulation_steps": 4}),
    ("collated", converter, {"collator": DefaultDataCollator()}),
    ("loader", loader, {}),
    ("dataset", dataset, {}),
    ("workers", dataset, {"dataloader_num_workers": 1}),
):
    if part in parts:
        train(part, make, **options)
if "refused" in parts:
    last = MyTrainer(Model("refused"), arguments("converter"), train_dataset=converter())
    with pytest.raises(InvalidArgumentError, match="the Trainer would skip rows that"):
        last.train(resume_from_checkpoint=True)

trainer = MyTrainer(
    Model("none"),
    arguments("evaluation", eval_strategy="no"),
    eval_dataset={"one": converter_of(url), "two": converter_of(even_url)},
    compute_metrics=lambda found: {"rows": len(set(found.predictions.tolist()))},
)
metrics = trainer.evaluate()
assert metrics["eval_one_rows"] == 1009, metrics
assert metrics["eval_two_rows"] == 1008, metrics
found = trainer.predict(converter_of(url))
record(found.predictions, "predicted")
assert (found.label_ids == found.predictions % 2).all()
if dist.is_initialized():
    dist.destroy_process_group()
