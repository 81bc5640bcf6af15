"""``load_state_dict(state, skip_batches=…)``, which begins some batches after a state."""

from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.readers import batch_reader, row_reader, write_parquet

from mdstorm.errors import InvalidArgumentError, StateMismatchError
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

#: Keras is not used here.
pytestmark = pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset")


def numbers(batch: Any) -> list[int]:
    found = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(number) for number in getattr(found, "numpy", lambda: found)()]


def all_batches(loader: Any) -> list[list[int]]:
    return [numbers(batch) for batch in loader]


@pytest.mark.matrix
@pytest.mark.parametrize("make", ["torch", "tf"])
@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_skipping_beyond_the_end_of_the_pass_raises_error_before_any_batch(
    small_shards: SparkDatasetConverter, make: str, order: str
) -> None:
    maker = small_shards.make_tf_dataset if make == "tf" else small_shards.make_torch_dataloader
    arguments: dict[str, Any] = {"batch_size": 20, "num_epochs": 2, "order": order}
    first = maker(**arguments)
    for _ in islice(first, 2):
        pass
    state = first.state_dict()
    whole = maker(**arguments)
    whole.load_state_dict(state)
    remaining = len(all_batches(whole))
    message = f"skip_batches={remaining + 1} is beyond the end of the pass: at most {remaining}"
    loader = maker(**arguments)
    with pytest.raises(InvalidArgumentError, match=message):
        loader.load_state_dict(state, skip_batches=remaining + 1)
    for wrong in (-1, 1.5, "3"):
        with pytest.raises(InvalidArgumentError, match="skip_batches must be an integer"):
            loader.load_state_dict(state, skip_batches=wrong)
    loader.load_state_dict(state, skip_batches=remaining)  # as a state after the last batch
    assert numbers(next(iter(loader)))


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_state_of_a_finished_pass_skips_batches_of_the_next_pass(
    small_shards: SparkDatasetConverter, order: str
) -> None:
    def make() -> Any:
        return small_shards.make_torch_dataloader(batch_size=20, num_epochs=1, order=order)

    first, whole, other = make(), make(), make()
    all_batches(first)
    whole.load_state_dict(first.state_dict())
    other.load_state_dict(first.state_dict(), skip_batches=2)
    assert all_batches(other) == all_batches(whole)[2:]


def test_pass_without_batches_raises_error_instead_of_searching_forever(
    ten: SparkDatasetConverter,
) -> None:
    for order in ("exact", "elastic"):
        local = ten.cache_dir_url.removeprefix("file://")
        given = {"order": ExactOrder()} if order == "exact" else {"num_epochs": None}
        dataset = StreamingDataset(local=local, **given)
        loader: Any = StreamingDataLoader(dataset, batch_size=11, drop_last=True)
        with pytest.raises(InvalidArgumentError, match="beyond the end of the pass"):
            loader.load_state_dict(loader.state_dict(), skip_batches=1)


def test_filters_make_batches_unknown_and_raise_error(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(batch_size=2, filters=[("number", ">", 2)])
    with pytest.raises(StateMismatchError, match="cannot be skipped"):
        loader.load_state_dict(loader.state_dict(), skip_batches=1)


def test_row_groups_of_which_filters_may_leave_out_all_rows_raise_error(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": [*range(8), 2, 3, 2, 3]}, 4)
    reader = batch_reader(url, filters=[("number", "not in", [5, 6])])
    with pytest.raises(StateMismatchError, match="cannot be skipped"):
        reader.load_state_dict(reader.state_dict(), skip_batches=1)


def test_loader_whose_batches_pytorch_makes_raises_error(
    small_shards: SparkDatasetConverter,
) -> None:
    class Own(StreamingDataset):
        def __iter__(self) -> Any:
            yield from super().__iter__()

    dataset = Own(local=small_shards.cache_dir_url.removeprefix("file://"), batch_size=2)
    loader = StreamingDataLoader(dataset, batch_size=2)
    with pytest.raises(InvalidArgumentError, match="skip_batches=2 requires a loader"):
        loader.load_state_dict(dataset.state_dict(0, from_beginning=True), skip_batches=2)


@pytest.mark.filterwarnings("ignore:No matching data is available")
def test_endless_readers_skip_over_epochs_and_empty_ones_raise_error(tmp_path: Path) -> None:
    options: dict[str, Any] = {"num_epochs": None, "shuffle_row_groups": True, "seed": 3}
    url = write_parquet(tmp_path / "rows", {"number": range(20)}, 4)
    reader, other = batch_reader(url, **options), batch_reader(url, **options)
    state = reader.state_dict()
    batches = [numbers(next(reader)) for _ in range(14)]
    other.load_state_dict(state, skip_batches=12)
    assert [numbers(next(other)) for _ in range(2)] == batches[12:]
    empty = write_parquet(tmp_path / "empty", {"number": pa.array([], pa.int64())})
    reader = batch_reader(empty, **options)
    with pytest.raises(InvalidArgumentError, match="skip_batches=1 is beyond the end"):
        reader.load_state_dict(reader.state_dict(), skip_batches=1)


def test_readers_skip_row_groups(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(20)}, 4)
    reader = batch_reader(url)
    next(reader)
    other = batch_reader(url)
    other.load_state_dict(reader.state_dict(), skip_batches=2)
    assert all_batches(other) == [[12, 13, 14, 15], [16, 17, 18, 19]]
    rows = row_reader(url)
    for _ in range(6):
        next(rows)
    following = row_reader(url)
    following.load_state_dict(
        rows.state_dict(), skip_batches=2
    )  # the rest of a row group, one more
    assert [row.number for row in following] == [*range(12, 20)]
    with pytest.raises(InvalidArgumentError, match="skip_batches=9 is beyond the end of the pass"):
        batch_reader(url).load_state_dict(reader.state_dict(), skip_batches=9)
