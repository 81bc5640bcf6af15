"""Random programs with torchdata's StatefulDataLoader; rows are counted by value."""

import io
import random
from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from tests.kit.frameworks import import_framework
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import each_once

from mdstorm_backend import ExactOrder, StreamingDataset

torchdata = import_framework("torchdata.stateful_dataloader")
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata calls set_vital
    pytest.mark.filterwarnings("ignore:.*and others one more"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on fewer cores
]


class Program:
    """Epochs that stop at random batches, and resume in new loaders."""

    def __init__(self, url: str, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.url, self.seed = url, draw.randint(1, 9)
        self.is_elastic = draw.random() < 0.3
        self.ranks, self.workers = draw.choice([1, 1, 2]), draw.choice([0, 0, 0, 1, 2, 3])
        self.batch_size = draw.randint(20, 200)
        sizes = [self.batch_size] if self.is_elastic else [None, self.batch_size, 64]
        self.rows_at_a_time = draw.choice(sizes)
        self.options: dict[str, Any] = {}
        if self.workers:
            self.options = {
                "multiprocessing_context": "fork",
                "snapshot_every_n_steps": draw.choice([1, 1, 3]),
                "persistent_workers": draw.random() < 0.5,
                "prefetch_factor": draw.choice([1, 2, 4]),
            }
        self.order = {"shuffle_shards": draw.random() < 0.5, "shuffle_rows": draw.random() < 0.5}
        self.loaders = self.made()
        self.steps: list[Any] = [dict(vars(self))]

    def made(self) -> list[Any]:
        return [self.loader_of(rank) for rank in range(self.ranks)]

    def loader_of(self, rank: int) -> Any:
        if self.is_elastic:
            how: dict[str, Any] = {"shuffle": True, "world": (rank, self.ranks)}
        else:
            order = ExactOrder(self.seed, **self.order, rank=rank, world_size=self.ranks)
            how = {"order": order}
        dataset = StreamingDataset(local=self.url, batch_size=self.rows_at_a_time, **how)
        return torchdata.StatefulDataLoader(
            dataset, batch_size=self.batch_size, num_workers=self.workers, **self.options
        )

    def run(self) -> None:
        for epoch in range(self.draw.randint(1, 3)):
            for loader in self.loaders:
                loader.dataset.set_epoch(epoch)
            seen: Counter[int] = Counter()
            for _ in range(self.draw.randint(0, 3)):
                seen += self.read(self.draw.randint(0, 4))
                if not each_once(ROWS) - seen:
                    break  # the state would resume with the next epoch
                self.resume()
            if each_once(ROWS) - seen:
                seen += self.read(None)
            extra = seen - each_once(ROWS)
            assert not each_once(ROWS) - seen, self.steps
            assert extra.total() < (self.ranks if self.is_elastic else 1), self.steps

    def read(self, batches: int | None) -> Counter[int]:
        """Read some batches on each rank, or all remaining ones."""
        self.steps.append(("read", batches))
        if batches == 0:
            return Counter()
        return Counter(
            row
            for loader in self.loaders
            for batch in islice(loader, batches)
            for row in batch["number"].tolist()
        )

    def resume(self) -> None:
        """Load the states into new loaders, possibly on a different number of ranks."""
        states = [through_a_file(loader.state_dict()) for loader in self.loaders]
        if not self.workers and not self.is_elastic:  # any state works on any number of ranks
            self.ranks = self.draw.choice([1, 2, 3])
            states = [self.draw.choice(states)] * self.ranks
        self.steps.append(("resume", self.ranks))
        self.loaders = self.made()
        for loader, state in zip(self.loaders, states, strict=True):
            loader.load_state_dict(state)


def through_a_file(state: dict[str, Any]) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("seed", range(100))
def test_random_programs_read_each_row_once(url: str, seed: int) -> None:
    Program(url, seed).run()
