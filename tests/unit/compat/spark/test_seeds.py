"""All ranks use the same seed; with different seeds, they would lose and repeat rows."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
from tests.kit.readers import continue_as_another_process
from tests.unit.compat.spark.converters import Numbers, in_either_order, with_each_in_either_order

from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import StreamingDataLoader
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.order.exact import DEFAULT_SEED

ROWS = 1_000
SHUFFLED = {"num_epochs": 1, "shuffle_rows": True}

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader")


@with_each_in_either_order
@pytest.mark.parametrize(
    "seed", [{}, pytest.param({"seed": 0}, marks=pytest.mark.long)], ids=["none", "0"]
)
def test_ranks_read_each_row_once_with_any_seed(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str, seed: dict[str, Any]
) -> None:
    ranks = [
        numbers(thousand, cur_shard=rank, shard_count=2, order=order, **seed, **SHUFFLED)
        for rank in range(2)
    ]
    assert Counter(ranks[0] + ranks[1]) == Counter(range(ROWS))
    assert ranks[0] != sorted(ranks[0])


@with_each_in_either_order
def test_new_loaders_with_shard_arguments_continue_with_next_epoch_of_default_seed(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    arguments = {**SHUFFLED, "cur_shard": 0, "shard_count": 1, "order": order}
    seeded = {**arguments, "seed": DEFAULT_SEED}
    epochs = numbers(thousand, **{**seeded, "num_epochs": 4})
    assert numbers(thousand, **{**arguments, "num_epochs": 2}) == epochs[: 2 * ROWS]
    assert numbers(thousand, **seeded) == epochs[:ROWS]
    numbers(thousand, **{**arguments, "shuffle_rows": False, "shuffle_row_groups": False})
    assert numbers(thousand, seed=None, **arguments) == epochs[2 * ROWS : 3 * ROWS]
    # In the exact order, 0 means no seed, as in Petastorm. In the elastic order, it is a seed.
    zero = numbers(thousand, seed=0, **arguments)
    assert (zero == epochs[3 * ROWS :]) == (order == "exact")


@in_either_order
@pytest.mark.parametrize("taken", [0, 9, None])
def test_new_loaders_continue_after_loaded_epoch(
    thousand: SparkDatasetConverter, order: str, taken: int | None
) -> None:
    arguments = {**SHUFFLED, "cur_shard": 0, "shard_count": 1, "order": order}

    def made() -> Any:
        return thousand.make_torch_dataloader(16, **arguments)

    def read(taken: int | None = None, state: Any = None) -> Any:
        loader = made()
        if state is not None:
            loader.load_state_dict(state)
        batches = islice(loader, taken) if taken != 0 else ()
        return [n for batch in batches for n in batch["number"].tolist()], loader.state_dict()

    first, _ = read()
    begun, state = read(taken)
    continue_as_another_process()
    (rest, _), (last, _) = read(state=state), read()
    continue_as_another_process()
    made().load_state_dict(state)  # nothing is read
    loaders = [made(), made()]
    list(loaders[0])
    list(loaders[1])
    epochs = [other.state_dict()["mdstorm"]["first_epoch"] for other in (loaders[1], made())]
    assert epochs == ([1, 2] if taken == 0 else [3, 4])
    arguments |= {"seed": DEFAULT_SEED, "num_epochs": 3 if taken is not None else 4}
    assert first + begun + rest + last == read()[0]


@in_either_order
def test_state_of_sample_loader_resumes_its_epoch_after_another_loader_was_read(
    thousand: SparkDatasetConverter, order: str
) -> None:
    arguments = {**SHUFFLED, "cur_shard": 0, "shard_count": 1, "order": order}

    def made() -> StreamingDataLoader:
        dataset = thousand.make_torch_dataloader(16, **arguments).dataset
        return StreamingDataLoader(dataset, batch_size=None)

    def read(samples: Any) -> list[int]:
        return [int(sample["number"]) for sample in samples]

    first, loader = read(made()), made()
    samples = iter(loader)
    begun, state = read(islice(samples, 9)), loader.state_dict()
    rest = read(samples)
    resumed = made()
    resumed.load_state_dict(state)
    assert read(resumed) == rest
    assert sorted(begun + rest) == sorted(first)
    assert begun + rest != first


@with_each_in_either_order
def test_default_seed_without_shard_arguments_is_random(
    thousand: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    one, other = (numbers(thousand, order=order, **SHUFFLED) for _ in range(2))
    assert one != other
    assert sorted(one) == sorted(other) == list(range(ROWS))


@in_either_order
def test_state_from_one_rank_resumes_all_ranks(thousand: SparkDatasetConverter, order: str) -> None:
    def loaders() -> list[Any]:
        return [
            thousand.make_torch_dataloader(
                16, cur_shard=rank, shard_count=2, order=order, **SHUFFLED
            )
            for rank in range(2)
        ]

    before, after = loaders(), loaders()
    seen = [n for loader in before for batch in islice(loader, 5) for n in batch["number"].tolist()]
    for loader in after:
        loader.load_state_dict(before[0].state_dict())
        seen += [number for batch in loader for number in batch["number"].tolist()]
    assert Counter(seen) == Counter(range(ROWS))


@in_either_order
def test_state_from_rank_with_different_seed_raises_error_or_warns(
    thousand: SparkDatasetConverter, order: str
) -> None:
    def loader(rank: int) -> Any:
        share = {"cur_shard": rank, "shard_count": 2, "seed": 7 + rank, "order": order}
        return thousand.make_torch_dataloader(16, **share, **SHUFFLED)

    states = []
    for begun in (loader(0), loader(1)):
        next(iter(begun))
        states.append(begun.state_dict())
    for rank, state in enumerate(states):
        loader(rank).load_state_dict(state)
    message = "taken by rank 0 with seed 7, and rank 1 was given seed 8"
    is_refused = order == "exact"
    expected = pytest.raises(StateMismatchError, match=message) if is_refused else None
    with expected or pytest.warns(UserWarning, match=message):
        loader(1).load_state_dict(states[0])
    loader(1).load_state_dict(loader(0).state_dict())  # taken before the first batch
