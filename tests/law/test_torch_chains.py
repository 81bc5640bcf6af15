"""Random chains of worlds with PyTorch loaders lose no rows, and only padding repeats rows."""

import random
from collections import Counter
from typing import Any

import pytest
from tests.kit.chains import Chain
from tests.kit.loaders import Filter, Same, torch_loader
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import Dataset, StreamingDataLoader, StreamingDataset

ROWS, SHARDS = 211, 7


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_numbers(tmp_path_factory.mktemp("numbers") / "data", ROWS, tasks=SHARDS)


def is_kept(number: int) -> bool:
    return number % 3 != 0


class Third(Filter):
    """Leaves out rows that are multiples of three, and declares that it drops rows."""

    def __init__(self) -> None:
        super().__init__(is_kept)


def chain_of(numbers: Dataset, seed: int) -> tuple[Chain, Counter[int]]:
    """Return a chain and the rows in one epoch."""
    draw = random.Random(-seed)
    kind = draw.choice(["plain", "plain", "plain", "function", "filter", "elastic"])
    workers: dict[str, Any] = {}
    if draw.random() < 0.06:
        workers = draw.choice(
            [
                {"num_workers": 1},
                {"num_workers": 2, "multiprocessing_context": "fork"},
            ]
        )
    shuffle = {
        "seed": draw.randint(1, 9),
        "shuffle_shards": draw.random() < 0.5,
        "shuffle_rows": draw.random() < 0.5,
        "window": draw.choice([0, 0, 40]),
    }
    options: dict[str, Any] = {"workers": draw.choice([0, 2]), **workers}
    expected = range(ROWS)
    if kind == "function":
        options["transform"] = Same()
    if kind == "filter":
        options["transform"] = Third()
        expected = [row for row in range(ROWS) if row % 3]  # type: ignore[assignment]

    def make(rank: int, ranks: int, batch_size: int) -> Any:
        if kind == "elastic":
            source = StreamingDataset(
                local=numbers.url, shuffle=True, batch_size=batch_size, world=(rank, ranks)
            )
            return StreamingDataLoader(source, batch_size=batch_size)
        share = {**shuffle, "rank": rank, "world_size": ranks}
        return torch_loader(numbers, shuffle=share, batch_size=batch_size, **options)

    chain = Chain(
        seed,
        make,
        lambda batch: batch["number"].tolist(),
        changes_world=kind == "plain",
        ends_alone=kind == "filter",
        copies=True,
    )
    chain.steps.append((kind, options, shuffle))
    return chain, Counter(expected)


def check(chain: Chain, epoch: Counter[int]) -> None:
    chain.run()
    wrong = {
        row: chain.seen[row] - chain.epochs * epoch[row]
        for row in chain.seen.keys() | epoch.keys()
        if chain.seen[row] != chain.epochs * epoch[row]
    }
    if "elastic" in chain.steps[0]:  # padding repeats rows, but no row may be missing
        wrong = {row: n for row, n in wrong.items() if n < 0}
    assert not wrong, (chain.seed, chain.steps)


@pytest.mark.filterwarnings("ignore:.*leave out rows:UserWarning")
@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=pytest.mark.long) for n in range(8, 400))]
)
def test_chain_of_worlds_returns_each_row_once_per_epoch(numbers: Dataset, seed: int) -> None:
    check(*chain_of(numbers, seed))
