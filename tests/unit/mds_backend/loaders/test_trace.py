"""`Trace`: which rows the batches of a pass have, compared with the rows that loaders yield."""

from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import (
    InvalidArgumentError,
    StateMismatchError,
)
from mdstorm_backend.loaders import trace_of_state
from mdstorm_backend.order import World

ROWS, SHARDS = 103, 9


def make(url: str, rank: int, ranks: int, run: dict[str, Any], workers: int = 0) -> Any:
    num_epochs, shuffles, seed = run["num_epochs"], run["shuffles"], run["seed"]
    rows = run.get("rows")
    if run["order"] == "exact":
        order = ExactOrder(seed, shuffles, shuffles, run["window"], rank, ranks)
        dataset = StreamingDataset(local=url, order=order, num_epochs=num_epochs, rows=rows)
    else:
        dataset = StreamingDataset(
            local=url,
            batch_size=run["size"],
            shuffle=shuffles,
            shuffle_seed=seed,
            num_epochs=num_epochs,
            world=(rank, ranks),
            rows=rows,
        )
    context = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    return StreamingDataLoader(
        dataset, batch_size=run["size"], drop_last=run["drop_last"], **context
    )


def rows_of(batches: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in batches]


@pytest.fixture(scope="module")
def local(url: str) -> str:
    return url.removeprefix("file://")


RUN = {"order": "exact", "shuffles": True, "window": 0, "num_epochs": 1, "seed": 3, "size": 10}


@pytest.fixture
def loader(local: str) -> Any:
    return make(local, 0, 2, {**RUN, "drop_last": True})


def test_trace_counts_batches_of_the_running_pass_or_of_the_next_one(loader: Any) -> None:
    first, iterator = loader.trace(), iter(loader)
    begun = rows_of(islice(iterator, 3))
    running = loader.trace()
    assert [running.rows(n).tolist() for n in range(3)] == begun
    rest = rows_of(iterator)
    following = loader.trace()
    assert [following.rows(n).tolist() for n in range(5)] == rows_of(loader)
    assert [first.rows(n).tolist() for n in range(5)] == begun + rest


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_trace_with_workers_has_their_batches_in_turn(local: str, order: str) -> None:
    loader = make(local, 0, 1, {**RUN, "order": order, "drop_last": False}, workers=2)
    trace, batches = loader.trace(), rows_of(loader)
    assert [trace.rows(n).tolist() for n in range(len(batches))] == batches
    assert trace.rows(range(2, 5)).tolist() == [*chain(*batches[2:5])]
    for several in ([4, 2, 3], (0,), np.array([1, 1]), range(4, 0, -2), []):
        assert trace.rows(several).tolist() == [*chain(*(batches[n] for n in several))]
    assert trace.where(batches[3][2]) == (3, 0)
    with pytest.raises(InvalidArgumentError, match="beyond the end of the pass"):
        trace.rows(range(1, len(batches) + 1))


def test_trace_of_a_state_needs_no_seed(local: str) -> None:
    def unseeded() -> Any:
        order = ExactOrder(shuffle_rows=True)
        return StreamingDataLoader(StreamingDataset(local=local, order=order), batch_size=10)

    first = unseeded()
    iterator = iter(first)
    next(iterator)
    state = first.state_dict()
    assert unseeded().trace(state).rows(0).tolist() == next(iterator)["number"].tolist()


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_endless_pass_has_each_row_by_the_end_of_the_next_epoch(
    local: str, order: str, numbers: Dataset
) -> None:
    run = {**RUN, "order": order, "num_epochs": None, "drop_last": False}
    loader = make(local, 1, 3, run)
    trace, batches = loader.trace(), rows_of(islice(loader, 40))
    assert [trace.rows(n, 1).tolist() for n in range(40)] == batches
    for row in range(0, ROWS, 17):
        batch, rank = trace.where(row)
        assert row in trace.rows(batch, rank)
        assert batch < 8
    resumed = trace_of_state(loader.state_dict(), numbers, batch_size=10)
    assert resumed.rows(0, 1).tolist() == trace.rows(40, 1).tolist()


@pytest.mark.matrix
@pytest.mark.parametrize("local_size", [1, 2, 4])
@pytest.mark.parametrize(
    "given",
    [
        {"num_canonical_nodes": 8},
        {"replication": 2},
        {"replication": 4, "num_canonical_nodes": 2},
    ],
    ids=str,
)
def test_trace_of_a_state_alone_has_the_rows_of_its_loader(
    given: dict[str, Any], local_size: int, local: str, numbers: Dataset
) -> None:
    def loader(rank: int) -> StreamingDataLoader:
        world = World(rank, 4, local_size)
        dataset = StreamingDataset(local=local, batch_size=5, shuffle=True, world=world, **given)
        return StreamingDataLoader(dataset, 5)

    loaders = [loader(rank) for rank in range(4)]
    begun = loaders[0].state_dict()
    passes = [iter(one) for one in loaders]
    read = [rows_of(islice(batches, 2)) for batches in passes]
    resumed = loaders[0].state_dict()
    rest = [rows_of(batches) for batches in passes]
    for state, expected in ((begun, read), (resumed, rest)):
        trace = trace_of_state(state, numbers, batch_size=5)
        found = [[trace.rows(n, r).tolist() for n in range(len(expected[r]))] for r in range(4)]
        assert found == expected


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_row_that_does_not_come_raises_error_with_the_reason(local: str, order: str) -> None:
    loader = make(local, 0, 2, {**RUN, "order": order, "drop_last": True})
    rows = loader.trace()
    seen = {int(row) for rank in range(2) for row in rows.rows(range(5), rank)}
    dropped = next(row for row in range(ROWS) if row not in seen)
    with pytest.raises(InvalidArgumentError, match=f"row {dropped} does not come .* drop_last"):
        rows.where(dropped)
    read = next(iter(loader))["number"].tolist()
    # The first batch is no peek if more were taken.
    batches = iter(loader)
    next(batches), next(batches)
    with pytest.raises(InvalidArgumentError, match="it was read before"):
        loader.trace(loader.state_dict()).where(read[0])


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_find_in_later_passes_counts_their_batches_from_the_first(local: str, order: str) -> None:
    loader = make(local, 0, 1, {**RUN, "order": order, "num_epochs": 2, "drop_last": False})
    found = loader.trace().find(range(ROWS), epochs=range(1, 4)).to_pylist()
    assert [time["epoch"] for time in found] == [1] * ROWS + [2] * ROWS + [3] * ROWS
    passes = [rows_of(loader) for _ in range(2)]  # of two epochs each
    assert all(time["row"] in passes[time["epoch"] // 2][time["batch"]] for time in found)


def test_find_in_endless_pass_needs_epochs(local: str) -> None:
    trace = make(local, 1, 2, {**RUN, "num_epochs": None, "drop_last": False}).trace()
    with pytest.raises(InvalidArgumentError, match=r"never ends: pass .* epochs=range\(0, 1\)"):
        trace.find([3])
    assert trace.find([3], range(2)).num_rows == 2
    with pytest.raises(InvalidArgumentError, match="epochs must be a range"):
        trace.find([3], [0, 1])
    assert "rank 1 of 2, from epoch 0 after 0 samples, endless" in repr(trace)
    assert "6 batches" in repr(make(local, 1, 2, {**RUN, "drop_last": False}).trace())
    one = make(local, 1, 2, {**RUN, "drop_last": False, "size": 99}).trace()
    assert repr(one).endswith(", 1 batch)")


def test_row_that_is_not_chosen_raises_error(local: str) -> None:
    trace = make(local, 0, 1, {**RUN, "rows": [4, 2], "drop_last": False}).trace()
    assert sorted(trace.rows(0)) == [2, 4]
    assert trace.shard_and_row(3) == (0, 3)
    with pytest.raises(InvalidArgumentError, match=r"row 3 does not come.* does not choose it"):
        trace.where(3)


def test_shard_and_row_are_those_of_the_dataset(loader: Any, numbers: Dataset) -> None:
    trace, sizes = loader.trace(), numbers.shard_sizes
    assert trace.shard_and_row(0) == (0, 0)
    assert trace.shard_and_row(sizes[0]) == (1, 0)
    assert trace.shard_and_row(ROWS - 1) == (SHARDS - 1, sizes[-1] - 1)


@pytest.mark.parametrize("row", [-1, ROWS, 1.5, "3", True])
def test_row_out_of_range_raises_error(loader: Any, row: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="row must be an integer from 0 to 102"):
        loader.trace().where(row)


@pytest.mark.parametrize("batch", [-1, 1.5, "3", [3, -1], [True], [[3]], None])
def test_batch_that_is_no_number_raises_error(loader: Any, batch: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="batch must be an integer of at least 0"):
        loader.trace().rows(batch)


def test_rank_that_does_not_exist_raises_error(loader: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="rank 2 of 2 does not exist"):
        loader.trace().rows(0, 2)


def test_loader_whose_batches_pytorch_makes_raises_error(local: str) -> None:
    class Own(StreamingDataset):
        def __iter__(self) -> Any:
            yield from super().__iter__()

    loader = StreamingDataLoader(Own(local=local, batch_size=2), batch_size=2)
    with pytest.raises(InvalidArgumentError, match="requires a loader with a batch_size"):
        loader.trace()


def test_state_of_another_dataset_raises_error(loader: Any) -> None:
    state = loader.state_dict()
    state["mdstorm"]["dataset"] = "another"
    with pytest.raises(StateMismatchError, match="from a different dataset"):
        loader.trace(state)
