"""Rows returned by a transform are spread so that all ranks have equal batch counts."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.loaders import Repeat, Same, Where, column, rows, saved, taken, torch_loader
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import StateMismatchError, TransformError

ROWS, SHARDS = 1_003, 13


class Kept(Same):
    """A transform that declares that it keeps each row in its position."""

    keeps_rows = True


def loader_of(numbers: Dataset, rank: int, size: int, **options: Any) -> Any:
    shuffle = {"rank": rank, "world_size": size, **options.pop("shuffle", {})}
    return torch_loader(numbers, shuffle=shuffle, **options)


def even(number: Any) -> Any:
    return number % 2 == 0


def most(share: float) -> Where:
    """Return a transform that leaves out a fraction of the rows, chosen by their numbers."""
    return Where(lambda number: number % 100 >= 100 * share)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "transform",
    [Same(), Kept(), most(0.01), Where(even), Repeat(3)],
    ids=["same", "kept", "most", "half", "thrice"],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": {"shuffle_rows": True, "shuffle_shards": True}},
        {"shuffle": {"window": 300}, "num_epochs": 3},
        {"drop_last": True},
        {"num_workers": 2},
    ],
    ids=str,
)
def test_ranks_have_equal_batch_counts_and_read_every_row(
    numbers: Dataset, transform: Any, options: dict[str, Any]
) -> None:
    sizes, found = [], Counter[int]()
    for rank in range(2):
        loader = loader_of(numbers, rank, 2, transform=transform, batch_size=30, **options)
        batches = list(loader)
        assert len(loader) == len(batches)
        sizes.append([len(batch["number"]) for batch in batches])
        found += Counter(rows(batches))
    assert len({len(each) for each in sizes}) == 1
    assert min(min(each) for each in sizes) > 0
    epochs = options.get("num_epochs", 1)
    wanted = transform({"number": np.arange(ROWS)})["number"].tolist() * epochs
    if "drop_last" in options:
        assert not found - Counter(wanted)
    else:
        assert found == Counter(wanted)


def test_transform_that_drops_too_many_rows_raises_error(numbers: Dataset) -> None:
    loader = loader_of(numbers, 0, 2, transform=most(0.99), batch_size=10)
    with pytest.raises(
        TransformError, match=r"returned \d+ rows for \d+, .* To leave out rows, pass"
    ):
        list(loader)


@pytest.mark.filterwarnings("ignore:No matching data")
@pytest.mark.parametrize("transform", [None, Same()], ids=["none", "same"])
def test_loader_of_an_empty_dataset_has_no_batches(tmp_path: Path, transform: Any) -> None:
    for rank in range(2):
        loader = loader_of(write_numbers(tmp_path / f"{rank}", 0), rank, 2, transform=transform)
        assert [len(loader), *loader] == [0]


def test_batches_on_a_single_rank_are_full_after_a_transform_drops_rows(numbers: Dataset) -> None:
    loader = torch_loader(numbers, transform=Where(even), batch_size=30)
    assert {len(batch["number"]) for batch in list(loader)[:-1]} == {30}


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.long) for n in range(6, 300))]
)
def test_random_worlds_resume_with_remaining_rows(numbers: Dataset, seed: int) -> None:
    draw = random.Random(seed)
    size, batch_size = draw.randint(2, 7), draw.randint(1, 400)
    transforms: list[Callable[[], Any]] = [Same, Kept, lambda: most(0.01), lambda: Repeat(2)]
    transform, epochs = draw.choice(transforms)(), draw.randint(1, 4)
    shuffle = {
        "shuffle_shards": draw.random() < 0.5,
        "shuffle_rows": draw.random() < 0.5,
        "window": draw.choice([0, 0, 100, 700]),
    }
    options = {"shuffle": shuffle, "transform": transform, "num_epochs": epochs}
    options["batch_size"] = batch_size
    found = Counter[int]()
    whole = [column(loader_of(numbers, rank, size, **options)) for rank in range(size)]
    counts = {len(rank) for rank in whole}
    assert len(counts) == 1
    stop = draw.randint(1, counts.pop())
    first = loader_of(numbers, 0, size, **options)
    _, state = saved(first, stop)
    for rank in range(size):
        loader = loader_of(numbers, rank, size, **options)
        loader.load_state_dict(state)
        rest = column(loader)
        if stop < len(whole[rank]):
            assert rest == whole[rank][stop:]
        found += Counter(itertools.chain(*whole[rank]))
    assert found == Counter(transform({"number": np.arange(ROWS)})["number"].tolist() * epochs)


def test_dataset_state_for_a_sample_count_resumes_with_remaining_batches(numbers: Dataset) -> None:
    """Composer saves and loads dataset states in this way."""

    def dataset(rank: int, batch_size: int = 30) -> Any:
        how = {"order": ExactOrder(rank=rank, world_size=2), "transform": Same()}
        return StreamingDataset(local=numbers.url, batch_size=batch_size, **how)

    one = dataset(0)
    taken(StreamingDataLoader(one, 30), 3)
    for rank in range(2):
        again = dataset(rank)
        again.load_state_dict(one.state_dict(180, True))
        whole = column(StreamingDataLoader(dataset(rank), 30))
        assert column(StreamingDataLoader(again, 30)) == whole[3:]
    with pytest.raises(StateMismatchError, match=r"batch_size=30.*batch_size=31"):
        dataset(0, 31).load_state_dict(one.state_dict(180, True))


@pytest.mark.parametrize(("size", "batch_size"), [(2, 31), (3, 30)])
def test_state_with_different_batch_size_raises_error(
    numbers: Dataset, size: int, batch_size: int
) -> None:
    loader = loader_of(numbers, 0, 2, transform=Same(), batch_size=30)
    taken(loader, 3)
    other = loader_of(numbers, 0, size, transform=Same(), batch_size=batch_size)
    with pytest.raises(StateMismatchError, match="the same number of ranks"):
        other.load_state_dict(loader.state_dict())
