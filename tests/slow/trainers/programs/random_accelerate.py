"""Random programs with Accelerate; arguments: URL FIRST STOP, a range of seeds.

Each program trains for some epochs, stops at random batches, and resumes, with `load_state` or
with `skip_first_batches`, often in new objects. Rows from all ranks are counted by value.
"""

import random
import shutil
import sys
from collections import Counter
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import gather_object
from support import begin_as_in_a_new_process, converter_of, keep_all

from mdstorm import TransformSpec
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

ROWS = 1_009


class Program:
    """One random program, which is the same on all ranks."""

    def __init__(self, url: str, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.url = url
        self.kind = draw.choice(["all", "auto", "function", "exact", "elastic", "workers"])
        self.batch_size = 2 * draw.randint(15, 200)
        self.by_state = draw.random() < 0.5
        self.configuration = {
            "dispatch_batches": draw.choice([None, True, True, False]),
            "split_batches": draw.random() < 0.3,
            "even_batches": draw.random() < 0.7,
            "use_stateful_dataloader": self.by_state,
        }
        self.steps: list[Any] = [dict(vars(self))]
        self.make()

    def make(self) -> None:
        begin_as_in_a_new_process()
        self.accelerator = Accelerator(
            cpu=not torch.cuda.is_available(),
            dataloader_config=DataLoaderConfiguration(**self.configuration),
        )
        self.loader = self.accelerator.prepare(self.source())
        self.may_peek = True

    def source(self) -> Any:
        if self.kind in ("all", "auto", "function"):
            options: dict[str, Any] = {} if self.kind == "all" else {"cur_shard": "auto"}
            if self.kind == "function":
                options["transform_spec"] = TransformSpec(keep_all)
            return converter_of(self.url).make_torch_dataloader(
                self.batch_size, num_epochs=1, shuffle_rows=True, **options
            )
        if self.kind == "elastic":
            dataset = StreamingDataset(local=self.url, shuffle=True, batch_size=self.batch_size)
        else:
            dataset = StreamingDataset(local=self.url, order=ExactOrder(3, shuffle_rows=True))
        workers = {"num_workers": 2} if self.kind == "workers" else {}
        return StreamingDataLoader(dataset, self.batch_size, **workers)

    def run(self) -> None:
        for epoch in range(self.draw.randint(1, 3)):
            rows: list[int] = []
            skipped, loader, ended = 0, self.loader, False
            for _ in range(self.draw.randint(0, 3)):
                found, ended = self.read(loader, self.draw.randint(2, 5))
                rows += found
                skipped += self.taken
                if ended:
                    break
                loader = self.resume(epoch, skipped)
            if not ended:
                rows += self.read(loader, None)[0]
            self.check(Counter(rows), epoch)
            self.may_peek = False

    def read(self, loader: Any, batches: int | None) -> tuple[list[int], bool]:
        """Read some batches, or all remaining ones; return whether the epoch has ended."""
        self.peek(loader)
        self.steps.append(("read", batches))
        rows: list[int] = []
        self.taken, ended = 0, batches is None
        for batch in islice(loader, batches):
            self.taken += 1
            rows += self.accelerator.gather_for_metrics(batch["number"].tolist(), True)
            ended = ended or self.accelerator.gradient_state.end_of_dataloader
        return rows, ended

    def peek(self, loader: Any) -> None:
        if self.may_peek and self.draw.random() < 0.4:
            rank = self.draw.choice([None, 0])
            self.steps.append(("peek", rank))
            if rank in (None, self.accelerator.process_index):
                next(iter(loader), None)
        self.may_peek = False

    def resume(self, epoch: int, skipped: int) -> Any:
        if self.by_state:
            self.accelerator.save_state("checkpoint")
            self.accelerator.wait_for_everyone()
        if self.draw.random() < 0.7 or not self.by_state:
            self.make()
        self.steps.append(("resume", skipped))
        if self.by_state:
            self.peek(self.loader)
            self.accelerator.load_state("checkpoint")
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                shutil.rmtree("checkpoint")
            self.may_peek = True
            return self.loader
        self.loader.set_epoch(epoch)
        if self.draw.random() < 0.3 and skipped > 1:
            first = self.accelerator.skip_first_batches(self.loader, 1)
            return self.accelerator.skip_first_batches(first, skipped - 1)
        return self.accelerator.skip_first_batches(self.loader, skipped)

    def check(self, found: Counter[int], epoch: int) -> None:
        wanted, ranks = Counter(range(ROWS)), self.accelerator.num_processes
        lost, doubled = (wanted - found).total(), (found - wanted).total()
        assert not lost, (epoch, "lost", lost, self.steps)
        assert doubled < (ranks if self.kind == "elastic" else 1), (epoch, doubled, self.steps)


def main(url: str, first: str, stop: str) -> None:
    failed = []
    for seed in range(int(first), int(stop)):
        program = Program(url, seed)
        try:
            program.run()
        except Exception as error:
            failed.append(seed)
            if program.accelerator.is_main_process:
                print(f"program {seed}: {error!r} {program.steps}", file=sys.stderr)
        if len(set(gather_object([tuple(failed)]))) > 1:
            raise SystemExit(f"ranks differ after program {seed}")
    Accelerator(cpu=not torch.cuda.is_available()).end_training()
    assert not failed, failed


main(*sys.argv[1:])
