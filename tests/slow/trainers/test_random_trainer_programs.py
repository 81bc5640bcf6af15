"""Random programs with Hugging Face's Trainer and the mixin; rows are counted by value."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.frameworks import import_framework
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.programs.support import converter_of

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

transformers: Any = import_framework("transformers")
mixin: Any = import_framework("mdstorm.transformers").StreamingTrainerMixin


class Model(torch.nn.Module):
    """A model that records the rows that it is trained on."""

    def __init__(self, seen: list[int]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen = seen

    def forward(self, number: torch.Tensor, x: torch.Tensor, labels: torch.Tensor) -> Any:
        if self.training:
            self.seen += number.tolist()
        return {"loss": ((x * self.weight - labels.float()) ** 2).mean(), "logits": number}


class MyTrainer(mixin, transformers.Trainer):  # type: ignore[misc]
    """A user's Trainer."""


class Stop(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop = control.should_save = state.global_step == self.step


class Program:
    """Epochs that are stopped at random steps, and resumed by new Trainers."""

    def __init__(self, url: str, seed: int, at: Path) -> None:
        draw = self.draw = random.Random(seed)
        self.url, self.at, self.seen = url, at, []  # type: tuple[str, Path, list[int]]
        self.kind = draw.choice(["converter", "loader", "elastic", "exact"])
        self.batch_size = draw.randint(40, 300)
        self.epochs = draw.randint(1, 3)
        self.workers = draw.choice([0, 0, 0, 1, 2]) if self.kind in ("elastic", "exact") else 0
        self.options = {
            "gradient_accumulation_steps": draw.choice([1, 1, 2, 3]),
            "dataloader_num_workers": self.workers,
            "dataloader_persistent_workers": bool(self.workers) and draw.random() < 0.5,
            "eval_strategy": draw.choice(["no", "no", "epoch"]),
        }
        self.steps: list[Any] = [dict(vars(self))]

    def data(self) -> Any:
        if self.kind == "converter":
            return converter_of(self.url)
        if self.kind == "loader":
            return converter_of(self.url).make_torch_dataloader(
                self.batch_size, num_epochs=1, shuffle_rows=True
            )
        if self.kind == "elastic":
            return StreamingDataset(local=self.url, shuffle=True, batch_size=self.batch_size)
        dataset = StreamingDataset(local=self.url, order=ExactOrder(5, shuffle_rows=True))
        if self.workers:
            return dataset
        return StreamingDataLoader(dataset, self.batch_size)

    def trainer(self, *callbacks: Any) -> Any:
        data = self.data()
        arguments = transformers.TrainingArguments(
            output_dir=str(self.at),
            use_cpu=not torch.cuda.is_available(),
            per_device_train_batch_size=self.batch_size,
            num_train_epochs=self.epochs,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **self.options,
        )
        return MyTrainer(
            Model(self.seen),
            arguments,
            train_dataset=data,
            eval_dataset=self.data(),
            callbacks=list(callbacks),
        )

    def run(self) -> None:
        steps = -(-len(self.trainer().get_train_dataloader()) // self.accumulated) * self.epochs
        at = 0
        for _ in range(self.draw.randint(1, 3)):
            if at + 1 >= steps:
                break
            before, at = at, self.draw.randint(at + 1, steps - 1)
            self.steps.append(("stop", at))
            self.trainer(Stop(at)).train(resume_from_checkpoint=before > 0)
        self.trainer().train(resume_from_checkpoint=at > 0)
        epochs = [sorted(self.seen[n * ROWS : (n + 1) * ROWS]) for n in range(self.epochs)]
        assert epochs == [list(range(ROWS))] * self.epochs, self.steps
        assert len(self.seen) == self.epochs * ROWS, self.steps
        orders = {tuple(self.seen[n * ROWS : (n + 1) * ROWS]) for n in range(self.epochs)}
        assert len(orders) == self.epochs, self.steps

    @property
    def accumulated(self) -> int:
        return int(self.options["gradient_accumulation_steps"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(100))
def test_random_programs_train_on_each_row_once_an_epoch(
    url: str, tmp_path: Path, seed: int
) -> None:
    Program(url, seed, tmp_path).run()
