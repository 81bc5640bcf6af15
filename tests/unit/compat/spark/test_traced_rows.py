"""``trace()`` of converters' loaders and datasets, of readers, and of loaders over readers."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.readers import batch_reader, row_reader, write_parquet

from mdstorm import TransformSpec
from mdstorm.errors import InvalidArgumentError, StateMismatchError, UnsupportedArgumentError
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import BatchedDataLoader
from mdstorm.spark import SparkDatasetConverter

#: Keras is not used here.
pytestmark = pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset")
ROWS = 211
#: The engine's tests of traces draw many worlds; these only connect loaders with their traces.
few = settings(max_examples=settings.default.max_examples // 3)  # type: ignore[union-attr]


def as_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def numbers(batch: Any) -> list[int]:
    found = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(number) for number in getattr(found, "numpy", lambda: found)()]


def assert_traced(trace: Any, batches: list[list[int]], rank: int) -> None:
    assert [trace.rows(n, rank).tolist() for n in range(len(batches))] == batches
    with pytest.raises(InvalidArgumentError, match="beyond the end of the pass"):
        trace.rows(len(batches), rank)


def first_places(batches_of_ranks: list[list[list[int]]]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for rank, batches in enumerate(batches_of_ranks):
        for place, row in ((n, row) for n, batch in enumerate(batches) for row in batch):
            found[row] = min(found.get(row, (place, rank)), (place, rank))
    return found


def assert_places(trace: Any, batches_of_ranks: list[list[list[int]]]) -> None:
    found = first_places(batches_of_ranks)
    for row in range(0, ROWS, 9):
        if row in found:
            assert trace.where(row) == found[row]
        else:
            with pytest.raises(InvalidArgumentError, match=f"row {row} does not come"):
                trace.where(row)


@pytest.mark.long
@few
@given(
    kind=st.sampled_from(["batches", "rows", "loader"]),
    shuffles=st.booleans(),
    ranks=st.integers(1, 3),
    num_epochs=st.integers(1, 2),
    taken=st.integers(0, 40),
)
def test_traced_rows_are_those_of_readers_and_loaders_over_them(
    url: str, kind: str, shuffles: bool, ranks: int, num_epochs: int, taken: int
) -> None:
    def make(rank: int) -> Any:
        reader = (row_reader if kind == "rows" else batch_reader)(
            url,
            shuffle_row_groups=shuffles,
            shuffle_rows=shuffles,
            seed=3,
            num_epochs=num_epochs,
            cur_shard=rank,
            shard_count=ranks,
        )
        return BatchedDataLoader(reader, batch_size=10) if kind == "loader" else reader

    def read(reader: Any) -> list[list[int]]:
        if kind == "rows":
            return [[int(row.number) for row in reader]]
        return [numbers(batch) for batch in reader]

    found = []
    for rank in range(ranks):
        state = None
        if taken:
            first = make(rank)
            for _ in islice(first, taken if kind == "rows" else taken % 7 + 1):
                pass
            state = json.loads(json.dumps(first.state_dict()))
        trace, reader = make(rank).trace(state), make(rank)
        if state is not None:
            reader.load_state_dict(state)
        batches = read(reader)
        if kind != "rows":
            assert_traced(trace, batches, rank)
        else:
            left, rows, number = len(batches[0]), [], 0
            while len(rows) < left:
                rows += trace.rows(number, rank).tolist()
                number += 1
            assert rows == batches[0]
        found.append(batches)
    if kind == "loader" or (kind == "batches" and not taken):
        assert_places(trace, found)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_parquet(tmp_path_factory.mktemp("traced"), {"number": range(ROWS)}, 13)


def test_state_of_one_ranks_row_groups_does_not_describe_other_ranks(url: str) -> None:
    reader = batch_reader(url, cur_shard=0, shard_count=2)
    next(reader)
    state = reader.state_dict()
    trace = batch_reader(url, cur_shard=0, shard_count=2).trace(state)
    assert trace.rows(0).tolist() == numbers(next(reader))
    with pytest.raises(StateMismatchError, match="counts the row groups of rank 0"):
        trace.rows(0, 1)


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
@pytest.mark.parametrize("order", ["exact", "elastic"])
@pytest.mark.parametrize(
    "options",
    [
        {"transform_spec": TransformSpec(as_is)},
        {"filters": [("number", ">", 2)]},
        {"predicate": in_lambda(["number"], lambda number: number > 2)},
    ],
)
def test_rows_that_may_be_dropped_raise_error_that_names_keeps_rows(
    ten: SparkDatasetConverter, make: str, order: str, options: dict[str, Any]
) -> None:
    loader = getattr(ten, make)(batch_size=2, order=order, **options)
    with pytest.raises(InvalidArgumentError, match=r"TransformSpec\(…, keeps_rows=True\)"):
        loader.trace()


def test_reader_of_n_grams_raises_error(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(10)})
    ngram = NGram({0: ["number"], 1: ["number"]}, 1, "number")
    reader = row_reader(url, schema_fields=ngram)
    with pytest.raises(UnsupportedArgumentError, match="rows of n-grams"):
        reader.trace()


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
def test_trace_within_a_loop_counts_the_batches_of_the_loop(
    small_shards: SparkDatasetConverter, make: str
) -> None:
    loader = getattr(small_shards, make)(batch_size=10, num_epochs=1, seed=3)
    for _ in range(2):
        found = [(loader.trace().rows(n).tolist(), numbers(b)) for n, b in enumerate(loader)]
        assert all(traced == batch for traced, batch in found)


def test_row_read_before_a_state_within_a_row_group_comes_in_the_next_epoch(url: str) -> None:
    reader = row_reader(url, num_epochs=2)
    for _ in range(5):
        next(reader)
    trace = row_reader(url, num_epochs=2).trace(reader.state_dict())
    groups = -(-ROWS // 13)
    assert [trace.where(row).batch for row in (3, 5, 13)] == [groups, 0, 1]
