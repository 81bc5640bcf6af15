"""Random programs that filter and transform under DDP; arguments: URL FIRST STOP.

FIRST and STOP are a range of seeds. All programs use the same process group. A rank trains on the
rows of its share that are not dropped. If ranks may have unequal numbers of batches, they use
`Join`, because training would hang otherwise. Rows from all ranks are counted by value.
"""

import random
import sys
from collections import Counter
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from support import begin_as_in_a_new_process, converter_of
from torch.distributed.algorithms.join import Join

from mdstorm.errors import TransformError
from mdstorm.predicates import in_lambda
from mdstorm.transform import TransformSpec
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders import agreement

ROWS = 1_009
KINDS = ["predicate", "filters", "both", "function", "columns", "workers", "drop_last"]


class World:
    """One random program, which is the same on all ranks."""

    def __init__(self, url: str, seed: int) -> None:
        self.url, draw = url, random.Random(seed)
        self.kind, self.order = draw.choice(KINDS), draw.choice(["exact", "elastic"])
        self.filters = self.kind in ("predicate", "filters", "both")
        self.batch_size = draw.choice([3, 7, 30, 120, 600])
        self.epochs = draw.choice([1, 1, 2, 3])
        self.drops = draw.choice([0, 1, 50, 99]) if self.filters or self.kind == "function" else 0
        # The kept rows are spread evenly, or are all at the end, so that some ranks have none.
        factor = draw.choice([1, 37])
        self.kept = {n for n in range(ROWS) if n * factor % ROWS * 100 >= ROWS * self.drops}
        self.shuffle = {
            name: draw.random() < 0.5 for name in ("shuffle_rows", "shuffle_row_groups")
        }
        self.window, self.threads = draw.choice([0, 0, 100, 700]), draw.randint(1, 4)

    def loader(self) -> Any:
        if self.kind in ("workers", "drop_last"):
            order = {"order": ExactOrder(**{"shuffle_rows": self.shuffle["shuffle_rows"]})}
            dataset = StreamingDataset(
                local=self.url.removeprefix("file://"),
                num_epochs=self.epochs,
                **(order if self.order == "exact" else {"shuffle": True}),
            )
            options = {"num_workers": 2} if self.kind == "workers" else {"drop_last": True}
            return StreamingDataLoader(dataset, self.batch_size, **options)
        return converter_of(self.url).make_torch_dataloader(
            self.batch_size,
            cur_shard="auto",
            num_epochs=self.epochs,
            order=self.order,
            workers_count=self.threads,
            shuffling_queue_capacity=self.window,
            **self.shuffle,
            **self.selection(),
        )

    def selection(self) -> dict[str, Any]:
        kept = self.kept
        if self.kind == "filters":
            return {"filters": [("number", "in", sorted(kept))]}
        function = TransformSpec(lambda frame: frame[frame["number"].isin(kept)])
        if self.kind in ("function", "columns"):
            columns = TransformSpec(removed_fields=["text"])
            return {"transform_spec": function if self.kind == "function" else columns}
        test = partial(in_lambda, ["number"], lambda number: number in kept)
        return {
            "predicate": test(),
            **({"transform_spec": function} if self.kind == "both" else {}),
        }

    def train(self) -> list[list[int]] | None:
        """Return the rows in each batch; None if a transform leaves some rank too few rows."""
        batches, trained = self.loader(), []
        if self.kind == "function":  # an error on one rank must not block the others
            try:
                batches = list(batches)
            except TransformError:
                batches = None
            if None in gathered(batches and len(batches)):
                return None
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
        with Join([model]) if self.filters else nullcontext():
            for batch in batches:
                model(batch["x"].float()[:, None]).sum().backward()
                trained.append(batch["number"].tolist())
        return trained

    def check(self) -> str:
        """Train, check the rows that all ranks have read, and return the kind of result."""
        said: list[str] = []
        agreement.warn_user = said.append
        agreement.shown.clear()
        begin_as_in_a_new_process()  # an error on one rank leaves the ranks at different epochs
        ranks = gathered(self.train())
        if None in ranks:
            assert self.drops > 1
            return "refused"
        assert [text for text in said if "Join" not in text] == []
        assert len(said) == (self.filters and self.order == "exact"), said
        if not (self.filters and self.order == "exact"):
            assert len(set(map(len, ranks))) == 1, [len(rank) for rank in ranks]
        found = Counter(chain(*chain(*ranks)))
        wanted = Counter(dict.fromkeys(self.kept, self.epochs))
        lost, doubled = (wanted - found).total(), (found - wanted).total()
        assert doubled < (self.order == "elastic") * self.epochs * dist.get_world_size() + 1
        room = self.epochs * dist.get_world_size() * self.batch_size
        assert lost <= (self.kind == "drop_last") * room, lost
        return "unequal" if len(set(map(len, ranks))) > 1 else "equal"


def gathered(value: Any) -> list[Any]:
    """Return the values from all ranks."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def main(url: str, first: str, stop: str) -> None:
    dist.init_process_group("gloo")
    ends: Counter[str] = Counter()
    for seed in range(int(first), int(stop)):
        world = World(url, seed)
        try:
            ends[world.check()] += 1
        except BaseException:
            print(f"world {seed}: {vars(world) | {'kept': len(world.kept)}}", file=sys.stderr)
            raise
    dist.destroy_process_group()
    print(f"worlds: {dict(ends)}")


main(*sys.argv[1:])
