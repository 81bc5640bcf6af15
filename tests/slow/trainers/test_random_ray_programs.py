"""Random programs with loaders prepared by Ray Train; rows are counted by value."""

import json
import random
from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from tests.kit.frameworks import import_framework
from tests.kit.readers import continue_as_another_process
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import each_once
from tests.slow.trainers.programs.support import converter_of, keep_all

from mdstorm import TransformSpec

ray = import_framework("ray.train.torch.train_loop_utils")
pytestmark = pytest.mark.long


class Program:
    """Epochs on one or two ranks that stop at random batches and resume, often in new loaders.

    `prepare_data_loader` wraps loaders in `_WrappedDataLoader`. Its other work needs a cluster.
    """

    def __init__(self, url: str, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.url, self.ranks = url, draw.choice([1, 1, 2])
        self.batch_size = draw.choice([draw.randint(30, 300), 505, 1_009, 2_000])
        self.options: dict[str, Any] = {"shuffle_rows": draw.random() < 0.7}
        self.changes_world = draw.random() < 0.7
        if not self.changes_world:
            self.options["transform_spec"] = TransformSpec(keep_all)
        if draw.random() < 0.2:
            self.options["order"] = "elastic"
            self.changes_world = False
        self.steps: list[Any] = [dict(vars(self))]
        continue_as_another_process()
        self.make()

    def make(self) -> None:
        self.loaders = [
            converter_of(self.url).make_torch_dataloader(
                self.batch_size,
                num_epochs=1,
                cur_shard=rank,
                shard_count=self.ranks,
                **self.options,
            )
            for rank in range(self.ranks)
        ]
        self.wrap()

    def wrap(self) -> None:
        device = torch.device("cpu")
        self.wrapped = [ray._WrappedDataLoader(loader, device, False) for loader in self.loaders]

    def run(self) -> None:
        orders = []
        for _ in range(self.draw.randint(2, 4)):
            seen: list[int] = []
            for _ in range(self.draw.randint(0, 2)):
                seen += self.read(self.draw.randint(2, 4))
                if not each_once(ROWS) - Counter(seen):
                    break
                self.resume()
            if each_once(ROWS) - Counter(seen):
                seen += self.read(None)
            extra = Counter(seen) - each_once(ROWS)
            assert not each_once(ROWS) - Counter(seen), self.steps
            assert extra.total() < (self.ranks if "order" in self.options else 1), self.steps
            orders.append(tuple(seen))
        if self.options["shuffle_rows"]:
            assert len(set(orders)) == len(orders), self.steps

    def read(self, batches: int | None) -> list[int]:
        """Read some batches on each rank, or all remaining ones."""
        self.steps.append(("read", batches))
        return [
            row
            for wrapped in self.wrapped
            for batch in islice(wrapped, batches)
            for row in batch["number"].tolist()
        ]

    def resume(self) -> None:
        """Load the states into the same or new loaders; ranks may peek before and after loading."""
        states = json.loads(json.dumps([loader.state_dict() for loader in self.loaders]))
        if self.changes_world:
            self.ranks = self.draw.choice([1, 2])
            self.batch_size = self.draw.randint(30, 300)
            states = [self.draw.choice(states)] * self.ranks
        is_new = len(states) != len(self.loaders) or self.draw.random() < 0.7
        self.steps.append(("resume", self.ranks, self.batch_size, is_new))
        if is_new:
            self.make()
        self.peek()
        for loader, state in zip(self.loaders, states, strict=True):
            loader.load_state_dict(state)
        if self.draw.random() < 0.3:
            self.wrap()
        self.peek()

    def peek(self) -> None:
        for rank, wrapped in enumerate(self.wrapped):
            if self.draw.random() < 0.3:
                self.steps.append(("peek", rank))
                next(iter(wrapped), None)


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_read_each_row_once(url: str, seed: int) -> None:
    Program(url, seed).run()


def test_last_batch_of_a_loaded_epoch_comes_again_unless_its_end_is_used(url: str) -> None:
    before, loader = (converter_of(url).make_torch_dataloader(100, num_epochs=1) for _ in range(2))
    for _ in islice(before, ROWS // 100):
        pass
    loader.load_state_dict(before.state_dict())
    peek, rest, following = (
        ray._WrappedDataLoader(loader, torch.device("cpu"), False) for _ in range(3)
    )
    # Ray has requested the end when it yields the last batch.
    assert len(next(iter(peek))["number"]) == ROWS % 100
    assert [len(batch["number"]) for batch in rest] == [ROWS % 100]
    assert len(next(iter(following))["number"]) == 100
