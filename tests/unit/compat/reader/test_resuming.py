"""Readers that resume from another reader's state or start at a given epoch."""

from collections import Counter
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.readers import write_parquet

from mdstorm import TransformSpec
from mdstorm.errors import StateMismatchError
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm_backend.loaders import Consumer

pytestmark = [pytest.mark.newest, pytest.mark.filterwarnings("ignore:Currently make_reader")]


def described(item: Any) -> Any:
    if isinstance(item, dict):
        return {offset: described(row) for offset, row in item.items()}
    return np.asarray(item.id).tolist()


PAIRS = NGram({0: ["id"], 1: ["id"]}, 1, "id")
SEEDS = count(3)
WAYS: dict[str, Callable[[str], Any]] = {
    "batches": lambda url: make_batch_reader(url, num_epochs=2, seed=3),
    "rows": lambda url: make_reader(url, num_epochs=2, seed=3, shuffle_rows=True),
    "rows with a predicate": lambda url: make_reader(
        url, num_epochs=2, seed=3, predicate=in_lambda(["id"], lambda i: i % 3 == 0)
    ),
    "rows with a transform": lambda url: make_reader(
        url, num_epochs=2, seed=3, transform_spec=TransformSpec(lambda row: {"id": -row["id"]})
    ),
    "n-grams": lambda url: make_reader(url, PAIRS, seed=3),
    "elastic": lambda url: make_batch_reader(url, num_epochs=2, seed=3, order="elastic"),
    "elastic rows": lambda url: make_reader(url, num_epochs=2, seed=3, order="elastic"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("taken", [0, 1, 3, 8])
def test_state_resumes_with_the_remaining_items(thirty: str, way: str, taken: int) -> None:
    with WAYS[way](thirty) as reader:
        whole = [described(item) for item in reader]
    with WAYS[way](thirty) as reader:
        begun = [described(item) for item in islice(reader, taken)]
        state = reader.state_dict()
    with WAYS[way](thirty) as reader:
        reader.load_state_dict(state)
        assert begun + [described(item) for item in reader] == whole


@pytest.mark.parametrize("way", ["rows", "elastic rows"])
def test_set_epoch_after_loading_mid_row_group_state_starts_with_whole_row_group(
    thirty: str, way: str
) -> None:
    with WAYS[way](thirty) as reader:
        next(reader)
        state = reader.state_dict()
    with WAYS[way](thirty) as reader, WAYS[way](thirty) as other:
        reader.load_state_dict(state)
        for each in (reader, other):
            each.set_epoch(3)
        assert [described(item) for item in reader] == [described(item) for item in other]


@pytest.mark.parametrize("way", ["batches", "rows", "rows with a transform"])
@pytest.mark.parametrize("used", [1, 8, 40])
def test_reader_state_excludes_prefetched_item(thirty: str, way: str, used: int) -> None:
    with WAYS[way](thirty) as reader:
        whole = [described(item) for item in reader]
    used = min(used, len(whole) - 1)
    with WAYS[way](thirty) as reader:
        with Consumer(lambda: True).requesting():
            for _ in range(used + 1):
                next(reader)
        state = reader.state_dict()
    with WAYS[way](thirty) as reader:
        reader.load_state_dict(state)
        assert [described(item) for item in reader] == whole[used:]


@pytest.mark.parametrize(
    "make",
    [
        lambda url: make_batch_reader(url, shuffle_rows=True),
        lambda url: make_reader(url, PAIRS, cur_shard=0, shard_count=2, seed=next(SEEDS)),
    ],
    ids=["unseeded", "n-grams on one rank"],
)
def test_reader_state_contains_seed(thirty: str, make: Callable[[str], Any]) -> None:
    with make(thirty) as reader:
        state = reader.state_dict()
        expected = [described(item) for item in reader]
    with make(thirty) as other:
        other.load_state_dict(state)
        assert [described(item) for item in other] == expected


def ids_of(items: Any) -> list[int]:
    return [n for item in items for n in np.atleast_1d(item.id).tolist()]


@pytest.mark.parametrize("later", [False, True])
def test_row_reader_raises_error_for_another_ranks_state(tmp_path: Path, *, later: bool) -> None:
    """The error is raised even if only items from the first row group have been consumed."""
    url = write_parquet(tmp_path, {"id": range(1_003)}, 70)

    def reader(rank: int) -> Any:
        return make_reader(url, shuffle_row_groups=False, cur_shard=rank, shard_count=4)

    states = []
    for rank in range(4):
        with reader(rank) as first:
            list(islice(first, 200 if later else 24))
            states.append(first.state_dict())
    for rank in range(4):
        with reader(rank) as other:
            if rank:
                with pytest.raises(StateMismatchError, match="save each rank's state"):
                    other.load_state_dict(states[0])
            other.load_state_dict(states[rank])


def test_row_reader_accepts_another_ranks_state_before_first_row(thirty: str) -> None:
    with make_reader(thirty, seed=3, cur_shard=0, shard_count=2) as first:
        state = first.state_dict()
    with make_reader(thirty, seed=3, cur_shard=1, shard_count=2) as other:
        other.load_state_dict(state)
        assert len(list(other)) == 15


def test_state_within_elastic_batch_raises_error_for_different_world_size(thirty: str) -> None:
    def reader(ranks: int, rank: int = 0) -> Any:
        return make_reader(thirty, seed=3, order="elastic", cur_shard=rank, shard_count=ranks)

    with reader(2) as first:
        list(islice(first, 3))
        state = first.state_dict()
    with reader(2, 1) as same:
        same.load_state_dict(state)
    with reader(1) as other, pytest.raises(StateMismatchError, match="3 items of a batch"):
        other.load_state_dict(state)


@pytest.mark.parametrize("requests_end", [False, True])
def test_all_ranks_finish_epoch_with_unequal_row_groups(
    tmp_path: Path, *, requests_end: bool
) -> None:
    """Ranks 0 and 2 read from one row group each, and rank 1 reads from both."""
    url = write_parquet(tmp_path, {"id": range(503)}, 300)

    def reader(rank: int) -> Any:
        return make_batch_reader(url, num_epochs=1, seed=3, cur_shard=rank, shard_count=3)

    seen, after = [], []
    for rank in range(3):
        with reader(rank) as first:
            seen += ids_of(islice(first, 1))
            if requests_end and rank != 1:
                assert not list(first)
            state = first.state_dict()
        with reader(rank) as second:
            second.load_state_dict(state)
            rest = ids_of(second)
            (after if requests_end and rank != 1 else seen).extend(rest)
            if not (requests_end and rank != 1):
                second.reset()
                after += ids_of(second)
    assert Counter(seen) == Counter(range(503))
    assert Counter(after) == Counter(range(503))


@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
def test_reader_state_under_a_loader_raises_error_that_names_loader(thirty: str, kind: Any) -> None:
    with make_batch_reader(thirty, seed=3, num_epochs=1) as reader:
        reader.state_dict()
        loader = kind(reader, batch_size=4)
        batches = iter(loader)
        next(batches)
        with pytest.raises(StateMismatchError, match=rf"{kind.__name__}.* call its state_dict\(\)"):
            reader.state_dict()
        state = loader.state_dict()
        assert state["sample_in_epoch"] == 4
        reader.load_state_dict(reader_state(thirty))
        assert reader.state_dict()["sample_in_epoch"] == 0
        list(loader)
        with pytest.raises(StateMismatchError, match=kind.__name__):
            reader.state_dict()
        reader.reset()
        assert len(ids_of(reader)) == 30
        reader.state_dict()


def reader_state(url: str) -> dict[str, Any]:
    with make_batch_reader(url, seed=3, num_epochs=1) as reader:
        return reader.state_dict()


@pytest.mark.parametrize("items", [-1, "two", None])
def test_damaged_state_raises_error(thirty: str, items: Any) -> None:
    with make_reader(thirty, seed=3) as reader:
        list(islice(reader, 2))
        state = reader.state_dict()
        state["mdstorm"]["skip"] = items
        with pytest.raises(StateMismatchError, match="'skip' must be an integer"):
            reader.load_state_dict(state)


in_either_order = pytest.mark.parametrize("order", ["exact", "elastic"])


def reader_of(url: str, order: str) -> Any:
    return make_batch_reader(url, num_epochs=1, seed=3, shuffle_rows=True, order=order)


@in_either_order
def test_set_epoch_applies_to_next_reader_pass(thirty: str, order: str) -> None:
    epochs = []
    with reader_of(thirty, order) as reader:
        for _ in range(3):
            epochs.append(ids_of(reader))
            reader.reset()
        for epoch in (2, 0, 1):
            reader.set_epoch(epoch)
            assert ids_of(reader) == epochs[epoch]
            reader.reset()
    assert epochs[0] != epochs[1] != epochs[2]
    with reader_of(thirty, order) as fresh:
        fresh.set_epoch(2)
        assert ids_of(fresh) == epochs[2]
