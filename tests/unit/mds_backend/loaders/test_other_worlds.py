"""A pass in exact order still reads each row once if it resumes in a different world."""

import json
from collections import Counter
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.loaders import Filter, column, rows, saved, shuffles, torch_loader
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import Dataset, StreamingDataLoader
from mdstorm_backend.errors import NoDataAvailableError, StateMismatchError

ROWS, SHARDS = 61, 9

worlds = st.tuples(st.integers(1, 16), st.integers(1, 70), st.integers(0, 30), st.booleans())
few_worlds = st.tuples(st.integers(1, 4), st.integers(1, 70), st.integers(0, 30))


class Ranks:
    """All ranks in a world, each with its own loader."""

    def __init__(
        self,
        dataset: Dataset,
        world_size: int,
        batch_size: int,
        state: dict[str, Any] | None = None,
        *,
        padded: bool = False,
        **options: Any,
    ) -> None:
        shuffle = options.pop("shuffle", {"seed": 1, "window": 15})
        if padded:
            shuffle = {**shuffle, "padded_to": batch_size}
        self.loaders: list[StreamingDataLoader] = []
        #: The iterators of the latest loop, which has not been left.
        self._running: list[Any] = []
        for rank in range(world_size):
            share = {**shuffle, "rank": rank, "world_size": world_size}
            loader = torch_loader(
                dataset, shuffle=share, batch_size=batch_size, workers=0, prefetch=0, **options
            )
            if state is not None:
                loader.load_state_dict(json.loads(json.dumps(state)))
            self.loaders.append(loader)

    @property
    def num_batches(self) -> int:
        """The number of batches, which is the same on all ranks."""
        (length,) = {len(loader) for loader in self.loaders}
        return length

    def take(self, batches: int | None) -> list[int]:
        """Read a number of batches (None: all) on each rank, and return the rows."""
        self._running = [iter(loader) for loader in self.loaders]
        found = [column(islice(running, batches)) for running in self._running]
        assert len({len(rank) for rank in found}) == 1  # else some ranks would wait for the others
        return [row for rank in found for batch in rank for row in batch]


def state_of_four(numbers: Dataset, **options: Any) -> dict[str, Any]:
    """Return the state after each of four ranks has read two batches of four rows."""
    ranks = Ranks(numbers, 4, 4, **options)
    ranks.take(2)
    return ranks.loaders[0].state_dict()


@pytest.mark.long  # for worlds without padding, tests/law/test_orders.py has shorter chains
@given(shuffles, st.lists(worlds, min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_each_row_is_read_once_per_epoch_over_any_chain_of_worlds(
    numbers: Dataset,
    shuffle: dict[str, Any],
    chain: list[tuple[int, int, int, bool]],
    epochs: int,
    data: st.DataObject,
) -> None:
    options = {"shuffle": shuffle, "num_epochs": epochs}
    seen: list[int] = []
    state = None
    for world_size, batch_size, batches, padded in chain:
        try:
            ranks = Ranks(numbers, world_size, batch_size, state, padded=padded, **options)
        except NoDataAvailableError:
            assert ROWS * epochs - len(seen) < world_size * epochs
            continue
        seen += ranks.take(batches)
        assert max(Counter(seen).values(), default=0) <= epochs
        state = data.draw(st.sampled_from(ranks.loaders)).state_dict()
        if len(seen) == ROWS * epochs:
            break
    else:
        seen += Ranks(numbers, 1, 7, state, **options).take(None)
    assert Counter(seen) == Counter(dict.fromkeys(range(ROWS), epochs))


def test_state_of_padded_world_resumes_in_one_process_without_padding(numbers: Dataset) -> None:
    before = Ranks(numbers, 2, 4, padded=True)
    seen = before.take(1)
    seen += Ranks(numbers, 1, 7, before.loaders[1].state_dict()).take(None)
    assert Counter(seen) == Counter(range(ROWS))


def test_rank_of_a_padded_world_may_have_no_remaining_rows(numbers: Dataset) -> None:
    before = Ranks(numbers, 1, ROWS - 2)
    seen = before.take(1)
    after = Ranks(numbers, 4, 4, before.loaders[0].state_dict(), padded=True)
    assert Counter(seen + after.take(None)) == Counter(range(ROWS))


@pytest.mark.long
@settings(deadline=None, max_examples=12)
@given(shuffles, st.lists(few_worlds, min_size=2, max_size=4), st.data())
def test_infinite_pass_resumes_in_a_different_world(
    numbers: Dataset,
    shuffle: dict[str, Any],
    chain: list[tuple[int, int, int]],
    data: st.DataObject,
) -> None:
    options = {"shuffle": shuffle, "num_epochs": None}
    seen: Counter[int] = Counter()
    state, epochs = None, 0
    for world_size, batch_size, batches in chain:
        ranks = Ranks(numbers, world_size, batch_size, state, **options)
        seen.update(ranks.take(batches))
        states = [loader.state_dict() for loader in ranks.loaders]
        epochs = max([epochs, *(state["epoch"] + 1 for state in states)])
        state = data.draw(st.sampled_from(states))
    # A single rank finishes, in order, all epochs that have begun.
    last = Ranks(numbers, 1, 1, state, **options)
    seen.update(last.take(ROWS * epochs - seen.total()))
    assert seen == Counter(dict.fromkeys(range(ROWS), epochs))


@pytest.mark.parametrize("drop_last", [False, True])
def test_pass_with_drop_last_resumes_in_a_different_world(
    numbers: Dataset, drop_last: bool
) -> None:
    first = Ranks(numbers, 4, 4, drop_last=True)
    seen = first.take(2)
    second = Ranks(numbers, 3, 5, first.loaders[2].state_dict(), drop_last=drop_last)
    rest = second.take(None)
    assert max(Counter(seen + rest).values()) == 1
    # One rank has only 9 of 29 rows, so with drop_last each rank reads one batch of 5 rows.
    assert len(rest) == (15 if drop_last else 29)


def test_resuming_with_fewer_rows_than_ranks_raises_error(numbers: Dataset) -> None:
    first = Ranks(numbers, 1, 20)
    first.take(2)
    state = first.loaders[0].state_dict()
    second = Ranks(numbers, 1, 19, state)
    second.take(1)
    state = second.loaders[0].state_dict()
    with pytest.raises(NoDataAvailableError, match=r"2 rows remain .* for 3 ranks") as e:
        Ranks(numbers, 3, 4, state)
    assert "ranks, or begin the next epoch" in str(e.value)
    assert len(Ranks(numbers, 2, 4, state).take(None)) == 2


ODD = Filter(lambda number: number % 2 == 1)
#: A filter that keeps three batches of 4 rows on rank 0 of 2, and all rows on rank 1.
HIGH = Filter(lambda number: number > 17)


@pytest.mark.parametrize("num_epochs", [1, 2])
def test_filtered_rank_resumes_from_its_own_state(numbers: Dataset, num_epochs: int) -> None:
    options: dict[str, Any] = {"transform": ODD, "num_epochs": num_epochs}
    before = Ranks(numbers, 2, 4, **options)
    seen = before.take(3)
    states = [loader.state_dict() for loader in before.loaders]
    for loader, state in zip(before.loaders, states, strict=True):
        loader.load_state_dict(state)
    expected = [row for row in range(1, ROWS, 2) for _ in range(num_epochs)]
    assert sorted(seen + before.take(None)) == expected


@pytest.mark.parametrize("of_rank", [0, 1])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_filtered_single_epoch_resumes_from_the_state_of_any_rank(
    numbers: Dataset, of_rank: int, batches: int
) -> None:
    shares = [Ranks(numbers, 2, 4, transform=HIGH).loaders for _ in range(2)]
    parts = [saved(loader, batches) for loader in shares[0]]
    seen = [row for read, _ in parts for batch in read for row in batch]
    states = [state for _, state in parts]
    rest = []
    for loader in shares[1]:
        loader.load_state_dict(json.loads(json.dumps(states[of_rank])))
        rest += rows(loader)
    assert sorted(seen + rest) == list(range(18, ROWS))


def test_filtered_pass_resumes_with_smaller_batches_on_all_ranks(numbers: Dataset) -> None:
    seen, state = [], None
    for batch_size in (4, 2):
        ranks = Ranks(numbers, 2, batch_size, state, transform=HIGH)
        seen += ranks.take(1)
        state = ranks.loaders[0].state_dict()
    for loader in Ranks(numbers, 2, 2, state, transform=HIGH).loaders:
        seen += rows(loader)
    assert sorted(seen) == list(range(18, ROWS))


@pytest.mark.parametrize(("num_epochs", "batches"), [(2, 3), (1, 4)])
def test_filtered_pass_with_state_from_another_rank_raises_error(
    numbers: Dataset, num_epochs: int, batches: int
) -> None:
    """Ranks cannot share a state from a pass over several epochs or after an incomplete batch."""
    options: dict[str, Any] = {"transform": ODD, "num_epochs": num_epochs}
    before = Ranks(numbers, 2, 4, **options)
    before.take(batches)
    states = [loader.state_dict() for loader in before.loaders]
    for world_size, state in ((2, states[1]), (1, states[0])):
        with pytest.raises(StateMismatchError, match="a state describes only its own rank"):
            Ranks(numbers, world_size, 4, state, **options)


#: A filter that keeps only a few rows on rank 0 of 2.
LAST = Filter(lambda number: number > 26)


@pytest.mark.parametrize("requests_end", [False, True])
def test_state_before_the_end_of_a_filtered_share_resumes_with_an_empty_pass(
    numbers: Dataset, *, requests_end: bool
) -> None:
    """Rank 0 has one batch, and only a request for a second batch shows that it was the last."""
    before = Ranks(numbers, 2, 4, transform=LAST)
    counts = 2 if requests_end else 1, 5
    parts = [saved(*one) for one in zip(before.loaders, counts, strict=True)]
    seen, states = [read for read, _ in parts], [state for _, state in parts]
    assert [len(rank) for rank in seen] == [1, 5]
    assert [state["mdstorm"]["finished"] for state in states] == [requests_end, False]
    if requests_end:
        with pytest.raises(StateMismatchError, match="save each rank's state"):
            Ranks(numbers, 2, 4, states[0], transform=LAST)
    after = Ranks(numbers, 2, 4, transform=LAST).loaders
    for loader, state in zip(after, states, strict=True):
        loader.load_state_dict(json.loads(json.dumps(state)))
    rest = [] if requests_end else rows(after[0])
    assert rest == []  # the rank's share of the epoch has been read
    returned = [row for rank in seen for batch in rank for row in batch]
    assert sorted(returned + rows(after[1])) == list(range(27, ROWS))
    assert sorted(row for loader in after for row in rows(loader)) == list(range(27, ROWS))


def test_set_epoch_after_the_end_of_a_filtered_share_selects_the_next_epoch(
    numbers: Dataset,
) -> None:
    (loader, _) = Ranks(numbers, 2, 4, transform=LAST).loaders
    first, state = sorted(rows(loader)), loader.state_dict()
    assert sorted(rows(copy(loader))) == first  # without a state, the copy begins a new pass
    loader.load_state_dict(state)
    loader.set_epoch(1)
    assert sorted(rows(loader)) == first


@pytest.mark.filterwarnings("ignore:No matching data")
def test_infinite_pass_over_an_empty_dataset_has_a_state(tmp_path: Path) -> None:
    empty = write_numbers(tmp_path, 0, tasks=1)
    first = Ranks(empty, 1, 4, num_epochs=None)
    assert first.take(None) == []
    second = Ranks(empty, 1, 4, first.loaders[0].state_dict(), num_epochs=None)
    assert second.take(None) == []


def test_state_lists_lanes_of_its_epoch_until_the_epoch_ends(numbers: Dataset) -> None:
    lanes, state = [], None
    for world_size, batches in ((4, 2), (3, 0), (2, 2), (2, 1), (4, 1)):
        ranks = Ranks(numbers, world_size, 4, state, num_epochs=None)
        ranks.take(batches)
        state = ranks.loaders[-1].state_dict()
        lanes.append([size for _, size, _ in state["mdstorm"]["lanes"]])
    # A world that has read nothing is not listed.
    assert lanes == [[4], [4], [4, 2], [4, 2], [4]]


@pytest.mark.parametrize(
    ("version", "age"), [(None, "an older"), (1, "an older"), (4, "an older"), (7, "a newer")]
)
def test_states_from_other_versions_raise_error(
    numbers: Dataset, version: int | None, age: str
) -> None:
    state = state_of_four(numbers)
    state["mdstorm"]["version"] = version
    with pytest.raises(StateMismatchError, match=f"by {age} version of mdstorm"):
        Ranks(numbers, 4, 4, state)


@pytest.mark.parametrize("changes", [256, 257, 1_500])
def test_too_many_world_changes_raise_state_mismatch(tmp_path: Path, changes: int) -> None:
    """Each change adds a level of recursion, so 1,500 changes would raise RecursionError."""
    numbers = write_numbers(tmp_path, 10_000, shard_size=1 << 20)
    first = Ranks(numbers, 2, 2_000, shuffle={})
    first.take(1)
    state = first.loaders[0].state_dict()
    state["mdstorm"]["lanes"] = [[n, 1 + n % 2, 0] for n in range(changes)]
    loader = torch_loader(numbers, batch_size=2_000)
    if changes == 256:
        loader.load_state_dict(state)
        assert len(rows(loader)) == 6_000
        return
    with pytest.raises(StateMismatchError, match=f"changed {changes} times within its epoch"):
        loader.load_state_dict(state)
