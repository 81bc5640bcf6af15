"""Rows drawn by weights: arguments, errors and states; `tests/law/test_weights.py` has the rest."""

import json
import pickle
import shutil
from collections import Counter
from datetime import date
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.readers import write_parquet

from mdstorm import TransformSpec, make_batch_reader, make_reader
from mdstorm.errors import (
    ArgumentTypeError,
    DatasetChangedError,
    InvalidArgumentError,
    NullValueError,
    StateMismatchError,
    UnsupportedArgumentError,
)
from mdstorm.predicates import in_set
from mdstorm.spark import make_spark_converter
from mdstorm_backend import (
    ElasticOrder,
    ExactOrder,
    MDSWriter,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)
from mdstorm_backend.datasets import kept_values
from mdstorm_backend.loaders import trace_of_state

ROWS = 60
COLUMNS: dict[str, Any] = {
    "id": range(ROWS),
    "weight": np.arange(ROWS) % 4,
    "half": pa.array([None if n == 7 else n / 2 for n in range(ROWS)]),
    "nan": np.where(np.arange(ROWS) == 9, np.nan, 1),
    "negative": np.where(np.arange(ROWS) == 11, -1, 1),
    "infinite": np.where(np.arange(ROWS) == 13, np.inf, 1),
    "zero": np.zeros(ROWS),
    "text": ["abc"[n // 40] for n in range(ROWS)],
    "list": [[n] for n in range(ROWS)],
    "day": [date(2026, 1, 1 + n % 5) for n in range(ROWS)],
    "price": [Decimal(n % 3) for n in range(ROWS)],
    "flag": [n % 3 == 0 for n in range(ROWS)],
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return write_parquet(tmp_path / "data", COLUMNS, 7)


def write_mds(folder: Path, weights: Any) -> str:
    with MDSWriter(out=str(folder), columns={"id": "int", "weight": "int"}) as writer:
        for number, weight in enumerate(weights):
            writer.write({"id": number, "weight": weight})
    return str(folder)


@pytest.fixture
def mds(tmp_path: Path) -> str:
    return write_mds(tmp_path / "mds", COLUMNS["weight"].tolist())


def loader_of(url: str, batch_size: int = 10, **arguments: Any) -> Any:
    arguments = {"num_epochs": 1, "seed": 3, "schema_fields": ["id"], **arguments}
    return make_spark_converter(url).make_torch_dataloader(batch_size, **arguments)


def ids(loader: Any, batches: int | None = None) -> list[int]:
    return [int(number) for batch in islice(loader, batches) for number in batch["id"]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"weights": "wieght"},
            ArgumentTypeError,
            r"names no column of .*mean weight",
        ),
        (
            {"balance": "wieght"},
            ArgumentTypeError,
            r"names no column of .*mean weight",
        ),
        ({"weights": "half"}, NullValueError, r"row 7 of .* null in 'half'.*where="),
        ({"balance": "half"}, NullValueError, r"row 7 of .* null in 'half'.*where="),
        ({"weights": "nan"}, InvalidArgumentError, "row 9 of .* has nan as its weight in 'nan'"),
        ({"balance": "nan"}, InvalidArgumentError, "row 9 of .* has nan as its weight in 'nan'"),
        ({"weights": "negative"}, InvalidArgumentError, "row 11 of .* has -1.0 as its weight"),
        ({"weights": "infinite"}, InvalidArgumentError, "row 13 of .* has inf as its weight"),
        ({"weights": "zero"}, InvalidArgumentError, "all weights in 'zero' of .* are 0"),
        ({"weights": "text"}, ArgumentTypeError, "column 'text' of .* type .*string, but weights"),
        ({"balance": "list"}, ArgumentTypeError, "column 'list' of .* type .*list.*, but classes"),
        (
            {"weights": np.ones(9)},
            InvalidArgumentError,
            "weights has 9 numbers, .* has 60 rows",
        ),
        ({"weights": COLUMNS["nan"]}, InvalidArgumentError, "row 9 of .* has nan as its weight"),
        (
            {"weights": COLUMNS["nan"], "rows": [8, 9]},
            InvalidArgumentError,
            "row 9 of .* has nan as its weight",
        ),
        (
            {"weights": "negative", "where": [("id", ">", 10)]},
            InvalidArgumentError,
            "row 11 of .* has -1.0 as its weight",
        ),
    ],
)
def test_values_that_are_no_weights_raise_error_with_row_and_remedy(
    url: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ids(loader_of(url, **arguments))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"weights": 3}, ArgumentTypeError, "weights must be the name of a column, or an array"),
        ({"weights": ["a"]}, ArgumentTypeError, r"one number for each row, found \['a'\]"),
        ({"weights": np.ones((2, 2))}, ArgumentTypeError, "one number for each row"),
        ({"weights": ""}, ArgumentTypeError, "weights must be a non-empty string"),
        ({"balance": ["text"]}, ArgumentTypeError, "balance must be a non-empty string"),
        ({"epoch_size": 0}, InvalidArgumentError, "epoch_size must be .* at least 1, .* found 0"),
        ({"epoch_size": "10k"}, InvalidArgumentError, "epoch_size must be .* found '10k'"),
        (
            {"weights": "weight", "balance": "text"},
            InvalidArgumentError,
            "balance='text' determines the weights of the rows, and so does weights=",
        ),
        (
            {"weights": "weight", "order": "elastic"},
            InvalidArgumentError,
            "weights='weight' draws the rows of an epoch, which the elastic order cannot",
        ),
        (
            {"balance": "text", "predicate": in_set([1], "id")},
            UnsupportedArgumentError,
            "balance= states the rows of an epoch, and predicate=.*where=",
        ),
        (
            {"epoch_size": 9, "filters": [("id", "<", 9)]},
            UnsupportedArgumentError,
            "epoch_size= states the rows of an epoch, and filters=.*where=",
        ),
        (
            {"balance": "text", "cache_type": "local-disk", "cache_location": "/tmp/c"},
            UnsupportedArgumentError,
            "not supported together with balance='text'",
        ),
    ],
)
def test_arguments_that_exclude_each_other_raise_error(
    url: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        loader_of(url, **arguments)


@pytest.mark.parametrize("column", ["day", "price", "flag", "text"])
def test_classes_of_any_type_come_equally_often(url: str, column: str) -> None:
    found = ids(loader_of(url, balance=column, epoch_size=300))
    counts = Counter(COLUMNS[column][number] for number in found)
    assert max(abs(count - 300 / len(counts)) for count in counts.values()) <= 12


@pytest.mark.parametrize("column", ["weight", "price", "flag"])
def test_column_of_numbers_and_equal_array_draw_the_same_rows(url: str, column: str) -> None:
    array = np.array([float(value) for value in COLUMNS[column]])
    by_column = ids(loader_of(url, weights=column))
    assert by_column == ids(loader_of(url, weights=array)) == ids(loader_of(url, weights=[*array]))
    assert all(array[by_column])


def test_rows_and_conditions_draw_only_among_chosen_rows(url: str) -> None:
    chosen = {"rows": range(20, 60), "where": [("id", "in", [*range(0, ROWS, 2)])]}
    loader = loader_of(url, weights=np.arange(ROWS), **chosen)
    found = Counter(ids(loader))
    numbers = np.arange(20, 60, 2)
    expected = numbers / numbers.sum() * len(numbers)
    for number, times in zip(numbers.tolist(), expected, strict=True):
        assert np.floor(times) <= found[number] <= np.ceil(times)
    assert found.total() == len(numbers)


def test_row_with_the_smallest_weight_may_be_drawn(url: str) -> None:
    weights = np.full(ROWS, 1e-30)
    weights[-1] = 1
    loader = loader_of(url, weights=weights, epoch_size=1 << 34, shuffle_row_groups=False)
    assert ids(loader, 1)[0] < ROWS - 1


def test_row_with_weight_0_is_never_drawn_beside_fractions(url: str) -> None:
    weights = np.full(ROWS, 1e-30)
    weights[0], weights[-1] = 0, 1
    loader = loader_of(url, weights=weights, epoch_size=1 << 34, shuffle_row_groups=False)
    assert ids(loader, 1)[0] == 1


def test_size_of_epoch_alone_draws_rows_equally_often(url: str) -> None:
    assert len(loader_of(url, epoch_size=25)) == 3
    found = Counter(ids(loader_of(url, epoch_size=150)))
    assert {*found.values()} == {2, 3}
    assert ids(loader_of(url, epoch_size=25)) != ids(loader_of(url, epoch_size=25, seed=4))


def test_epochs_draw_different_rows(url: str) -> None:
    loader = loader_of(url, epoch_size=25)
    first, second = ids(loader), ids(loader)
    assert sorted(first) != sorted(second)


def test_ranks_have_equal_batches_from_all_classes_of_a_sorted_table(url: str) -> None:
    shares = [{"cur_shard": rank, "shard_count": 4} for rank in range(4)]
    read = [ids(loader_of(url, balance="text", epoch_size=400, **share)) for share in shares]
    assert [len(one) for one in read] == [100] * 4
    assert all({COLUMNS["text"][number] for number in one} == {*"ab"} for one in read)


def test_rows_without_shuffling_come_in_stored_order(url: str) -> None:
    found = ids(loader_of(url, weights="weight", shuffle_row_groups=False))
    assert found == sorted(found)


def test_transform_that_drops_rows_gets_drawn_rows(url: str) -> None:
    kept = TransformSpec(lambda frame: frame[frame["id"] % 2 == 1], selected_fields=["id"])
    found = Counter(ids(loader_of(url, weights="weight", transform_spec=kept)))
    drawn = Counter(ids(loader_of(url, weights="weight")))
    assert found == {number: times for number, times in drawn.items() if number % 2}


@pytest.mark.filterwarnings("ignore:Currently make_reader")
def test_readers_draw_the_rows_of_a_loader(url: str) -> None:
    arguments: dict[str, Any] = {"seed": 3, "weights": "weight", "schema_fields": ["id"]}
    drawn = ids(loader_of(url, weights="weight"))
    with make_reader(url, num_epochs=1, **arguments) as reader:
        assert [int(row.id) for row in reader] == drawn
    with make_batch_reader(url, num_epochs=1, **arguments) as reader:
        assert [number for batch in reader for number in batch.id.tolist()] == drawn


@pytest.mark.parametrize("num_workers", [0, 2])
def test_dataset_draws_in_workers_and_single_samples(mds: str, num_workers: int) -> None:
    def made(**arguments: Any) -> StreamingDataset:
        return StreamingDataset(local=mds, weights="weight", shuffle=True, **arguments)

    expected = ids(StreamingDataLoader(made(), 10))
    assert len(expected) == ROWS == Counter(n % 4 for n in expected).total()
    loader = StreamingDataLoader(made(), 10, num_workers=num_workers)
    assert ids(loader) == expected == [int(sample["id"]) for sample in made()]
    assert len(made(epoch_size="1k")) == 1000
    copied = pickle.loads(pickle.dumps(loader))  # noqa: S301
    assert ids(copied) == ids(loader)


def test_dataset_keeps_weights_when_another_setting_changes(mds: str) -> None:
    dataset = StreamingDataset(local=mds, weights="weight", shuffle=True, shuffle_seed=5)
    dataset.batch_size = 7
    assert all(sample["id"] % 4 for sample in dataset)


def test_share_of_a_weighted_dataset_stays_when_another_setting_changes(mds: str) -> None:
    draws = []
    for world in ((0, 1), (0, 2), (1, 2)):
        dataset = StreamingDataset(local=mds, weights="weight", shuffle_seed=5, world=world)
        dataset.batch_size = 7
        draws.append([int(sample["id"]) for sample in dataset])
    whole, *shares = draws
    assert sorted(chain(*shares)) == sorted(whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": "weight", "shuffle_algo": "py1s"}, "shuffle_algo would have no effect"),
        ({"weights": "weight", "order": ElasticOrder(1)}, "which the elastic order cannot"),
        ({"weights": "weight", "order": ExactOrder(), "shuffle": True}, "shuffle would have no"),
        ({"balance": "weight", "weights": "weight"}, "and so does weights="),
    ],
)
def test_dataset_refuses_arguments_without_effect(
    mds: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        StreamingDataset(local=mds, **arguments)


def test_weights_of_rows_and_of_streams_exclude_each_other(mds: str) -> None:
    with pytest.raises(InvalidArgumentError, match="weighted order does not weight streams"):
        StreamingDataset(streams=[Stream(local=mds, proportion=1)], weights="weight")


def test_weights_reach_over_streams(mds: str) -> None:
    weights = np.arange(2 * ROWS) >= ROWS
    dataset = StreamingDataset(
        streams=[Stream(local=mds), Stream(local=mds)], weights=weights, row_numbers="row"
    )
    assert min(int(sample["row"]) for sample in dataset) >= ROWS


def test_state_after_changed_column_raises_error(mds: str) -> None:
    loader = StreamingDataLoader(StreamingDataset(local=mds, weights="weight", shuffle=True), 10)
    ids(loader, 2)
    state = json.loads(json.dumps(loader.state_dict()))
    shutil.rmtree(mds)
    write_mds(Path(mds), COLUMNS["weight"][::-1].tolist())
    after = StreamingDataLoader(StreamingDataset(local=mds, weights="weight", shuffle=True), 10)
    with pytest.raises(DatasetChangedError, match=r"weighted has other values than when the state"):
        after.load_state_dict(state)
    assert all((ROWS - 1 - number) % 4 for number in ids(after))


def test_file_that_changes_before_its_column_is_read_raises_error(url: str, tmp_path: Path) -> None:
    loader = loader_of(url, weights="weight")
    _ = loader.dataset._mdstorm.dataset  # opened, but the column has not been read
    pq.write_table(pa.table({"id": range(9)}), tmp_path / "data" / "part.parquet")
    with pytest.raises(DatasetChangedError):
        ids(loader)


def test_state_with_other_weights_or_size_is_refused(url: str) -> None:
    loader = loader_of(url, weights=np.ones(ROWS), epoch_size=30)
    ids(loader, 2)
    state = loader.state_dict()
    for other in (
        {"weights": np.arange(ROWS), "epoch_size": 30},
        {"weights": "weight", "epoch_size": 30},
        {"weights": np.ones(ROWS)},
    ):
        with pytest.raises(StateMismatchError, match="different arguments"):
            loader_of(url, **other).load_state_dict(state)


def test_state_is_traced_without_its_loader_unless_weights_are_an_array(mds: str) -> None:
    for weights in ("weight", np.arange(ROWS) % 4):
        dataset = StreamingDataset(local=mds, weights=weights, shuffle=True)
        loader = StreamingDataLoader(dataset, 10)
        ids(loader, 2)
        state = json.loads(json.dumps(loader.state_dict()))
        if isinstance(weights, str):
            found = trace_of_state(state, open_dataset(mds), batch_size=10)
            loader.load_state_dict(state)
            assert found.rows(slice(None)).tolist() == ids(loader)
        else:
            with pytest.raises(InvalidArgumentError, match="taken with an array as weights="):
                trace_of_state(state, open_dataset(mds), batch_size=10)


def test_column_is_read_once_for_all_loaders(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ids(loader_of(url, weights="weight"))
    monkeypatch.setattr(kept_values, "_AT_A_TIME", 0)  # reading would raise an error
    assert ids(loader_of(url, weights="weight")) == expected


def test_loader_shows_how_rows_are_drawn(url: str) -> None:
    assert "weighted order, shards shuffled, seed 3, balance='text'" in repr(
        loader_of(url, balance="text")
    )
