"""Random chains of readers or loaders, each resuming the previous one, read each row once."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.kit.chains import Chain
from tests.kit.readers import write_parquet

from mdstorm import TransformSpec
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.reader import make_batch_reader, make_reader

pytestmark = [
    pytest.mark.filterwarnings("ignore:Currently make_reader"),
    pytest.mark.filterwarnings("ignore:.*leave out rows:UserWarning"),
]
ROWS = 211


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_parquet(tmp_path_factory.mktemp("chains"), {"id": range(ROWS)}, 30)


class Items:
    """A reader in the form of a loader. Each iterator continues where the last one stopped."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader
        self.state_dict = reader.state_dict
        self.load_state_dict = reader.load_state_dict

    def __iter__(self) -> Any:
        return iter(self.reader)


def again(loader: Any) -> None:
    if isinstance(loader, Items):
        assert not list(loader.reader)  # a reader notices its end only when asked for another item
        loader.reader.reset()


def stop(loader: Any) -> None:
    loader.reader.stop()


def chain_of(url: str, seed: int) -> tuple[Chain, Counter[int]]:
    """Return a random chain and the rows it should read in each epoch."""
    draw = random.Random(-seed)
    over = draw.choice(["reader", "reader", DataLoader, BatchedDataLoader])
    make_one = draw.choice([make_reader, make_batch_reader])
    options: dict[str, Any] = {
        "num_epochs": 1,
        "seed": draw.randint(1, 9),
        "shuffle_row_groups": draw.random() < 0.5,
        "shuffle_rows": draw.random() < 0.5,
        "workers_count": draw.choice([1, 3]),
    }
    expected = Counter(range(ROWS))
    kind = draw.choice(["plain", "plain", "predicate", "function"])
    if kind == "predicate":
        options["predicate"] = in_lambda(["id"], lambda id: id % 3 != 0)
        expected = Counter(row for row in range(ROWS) if row % 3)
    if kind == "function":
        options["transform_spec"] = TransformSpec(lambda rows: rows)
    if kind == "plain" and draw.random() < 0.3:
        options["order"] = "elastic"

    def make(rank: int, ranks: int, batch_size: int) -> Any:
        reader = make_one(url, cur_shard=rank, shard_count=ranks, **options)
        return Items(reader) if over == "reader" else over(reader, batch_size)

    def values(batch: Any) -> list[int]:
        found = batch["id"] if isinstance(batch, dict) else batch.id
        return [int(value) for value in np.atleast_1d(np.asarray(found))]

    chain = Chain(
        seed,
        make,
        values,
        changes_world=over != "reader" and kind == "plain" and "order" not in options,
        peeks=over != "reader",
        ends_alone=kind == "predicate",
        again=again,
        close=stop,
    )
    chain.steps.append((over, make_one, kind, options))
    return chain, expected


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.long) for n in range(12, 100))]
)
def test_reader_chain_returns_each_row_once_per_epoch(parquet: str, seed: int) -> None:
    chain, epoch = chain_of(parquet, seed)
    chain.run()
    expected = Counter({row: chain.epochs * count for row, count in epoch.items()})
    assert not expected - chain.seen, chain.steps
    if "order" not in chain.steps[0][3]:  # the elastic order repeats rows to fill the last batch
        assert chain.seen == expected, chain.steps
