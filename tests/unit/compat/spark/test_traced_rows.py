"""``trace()`` of converters' loaders and datasets, of readers, and of loaders over readers."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.kit.readers import batch_reader, row_reader, write_parquet

from mdstorm import TransformSpec
from mdstorm.errors import InvalidArgumentError, StateMismatchError, UnsupportedArgumentError
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda
from mdstorm.spark import SparkDatasetConverter

#: Keras is not used here.
pytestmark = pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset")
ROWS = 211


def as_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def numbers(batch: Any) -> list[int]:
    found = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(number) for number in getattr(found, "numpy", lambda: found)()]


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
