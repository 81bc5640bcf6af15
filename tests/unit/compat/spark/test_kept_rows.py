"""Transforms with ``keeps_rows=True``, whose rows are numbered as if there were no function."""

import pickle
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tensorflow as tf
from tests.kit.chains import Chain
from tests.kit.readers import batch_reader, row_reader, write_parquet
from tests.unit.compat.spark.converters import IN_ORDER, Read, with_either

from mdstorm import TransformSpec
from mdstorm.errors import StateMismatchError, TransformError
from mdstorm.pytorch import BatchedDataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

ROWS = 211
#: TensorFlow's errors keep only the message of the cause.
ERRORS = (TransformError, tf.errors.OpError)


def negate(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(number=-frame["number"])


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 100))]
)
def test_random_worlds_read_each_transformed_row_once_per_epoch(
    small_shards: SparkDatasetConverter, seed: int
) -> None:
    draw = random.Random(-seed)
    shuffles = draw.random() < 0.6
    options: dict[str, Any] = {
        "num_epochs": 1,
        "seed": draw.randint(1, 9),
        "order": draw.choice(["exact", "exact", "elastic"]),
        "shuffle_row_groups": shuffles,
        "shuffle_rows": shuffles and draw.random() < 0.5,
        "shuffling_queue_capacity": draw.choice([0, 0, 50]),
        "workers_count": draw.choice([1, 3]),
        "transform_spec": TransformSpec(negate, keeps_rows=True),
    }

    def make(rank: int, ranks: int, batch_size: int) -> Any:
        world = {"cur_shard": rank, "shard_count": ranks}
        return small_shards.make_torch_dataloader(batch_size=batch_size, **world, **options)

    chain = Chain(
        seed,
        make,
        lambda batch: [-number for number in batch["number"].tolist()],
        # The elastic order cannot share every batch among other numbers of ranks.
        changes_world=options["order"] == "exact",
    )
    chain.run()
    expected = Counter(dict.fromkeys(range(ROWS), chain.epochs))
    assert not expected - chain.seen, (options, chain.steps)
    if options["order"] == "exact":  # the elastic order repeats rows to fill the last batch
        assert chain.seen == expected, (options, chain.steps)


@with_either
def test_batches_are_those_of_the_same_loader_without_function(
    small_shards: SparkDatasetConverter, read: Read
) -> None:
    arguments = {"batch_size": 8, "num_epochs": 2, "seed": 4}
    plain = read(small_shards, **arguments)
    kept = read(small_shards, transform_spec=TransformSpec(negate, keeps_rows=True), **arguments)
    assert [[-n for n in batch["number"]] for batch in kept] == [b["number"] for b in plain]


def test_job_on_four_ranks_continues_on_three_then_five(
    small_shards: SparkDatasetConverter,
) -> None:
    spec = TransformSpec(negate, keeps_rows=True)
    seen: Counter[int] = Counter()
    state = None
    for ranks, taken in [(4, 4), (3, 3), (5, None)]:
        states, lengths = [], set()
        for rank in range(ranks):
            loader = small_shards.make_torch_dataloader(
                batch_size=7, num_epochs=1, cur_shard=rank, shard_count=ranks, transform_spec=spec
            )
            lengths.add(len(loader))
            if state is not None:
                loader.load_state_dict(state)
            for batch in islice(loader, taken):
                seen.update((-batch["number"]).tolist())
            states.append(loader.state_dict())
        assert len(lengths) == 1
        state = states[1]
    assert seen == Counter(range(ROWS))


def test_batched_loader_over_reader_with_function_resumes(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(20)})
    options = {"transform_spec": TransformSpec(negate, keeps_rows=True)}
    loader = BatchedDataLoader(batch_reader(url, **options), batch_size=3)
    batches = iter(loader)
    seen = [n for _ in range(4) for n in next(batches)["number"].tolist()]
    other = BatchedDataLoader(batch_reader(url, **options), batch_size=3)
    other.load_state_dict(loader.state_dict())
    seen += [n for batch in other for n in batch["number"].tolist()]
    assert seen == [-n for n in range(20)]


def test_row_function_keeps_rows_without_argument(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(20)})
    for more in ({}, {"keeps_rows": True}):
        spec = TransformSpec(lambda row: {"number": row["number"] + 1}, **more)
        assert [row.number for row in row_reader(url, transform_spec=spec)] == [*range(1, 21)]


@with_either
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda frame: frame[1:], "returned 9 rows for 10"),
        (lambda frame: frame.drop(index=[3], inplace=True) or frame, "returned 9 rows for 10"),
        (lambda frame: pd.concat([frame, frame]), "returned 20 rows for 10"),
        (lambda frame: frame[:0], "returned 0 rows for 10"),
        (lambda frame: frame[::-1], "moved rows: row 0 of its result has the index 9"),
        (
            lambda frame: frame.sort_values("number", ascending=False),
            r"the same rows in the same order.*A new index \(reset_index, ignore_index=True\)",
        ),
        (lambda frame: frame.iloc[[0, 0, *range(2, 10)]], "row 1 of its result has the index 0"),
    ],
    ids=["dropped", "in place", "added", "none", "reversed", "sorted", "repeated"],
)
def test_function_that_does_not_keep_rows_raises_error_before_any_batch(
    ten: SparkDatasetConverter, read: Read, function: Any, message: str
) -> None:
    spec = TransformSpec(function, keeps_rows=True)
    with pytest.raises(ERRORS, match=message):
        read(ten, transform_spec=spec, batch_size=10, **IN_ORDER)


@with_either
@pytest.mark.parametrize("more", [{"filters": [("number", ">=", 2)]}, {"order": "elastic"}])
def test_dropped_row_raises_error_with_filters_and_in_elastic_order(
    ten: SparkDatasetConverter, read: Read, more: dict[str, Any]
) -> None:
    spec = TransformSpec(lambda frame: frame[1:], keeps_rows=True)
    with pytest.raises(ERRORS, match=r"with keeps_rows=True returned \d rows for \d"):
        read(ten, transform_spec=spec, batch_size=5, **more, **IN_ORDER)


@with_either
@pytest.mark.parametrize(
    "function",
    [
        lambda frame: frame.set_axis([*"abcdefghij"][: len(frame)]),
        lambda frame: frame[::-1].reset_index(drop=True)[::-1].reset_index(drop=True),
        lambda frame: frame.sort_values("number", ignore_index=True),
    ],
    ids=["other", "reset", "ignored"],
)
def test_result_with_an_index_of_its_own_keeps_its_rows(
    ten: SparkDatasetConverter, read: Read, function: Any
) -> None:
    spec = TransformSpec(function, keeps_rows=True)
    (batch,) = read(ten, transform_spec=spec, batch_size=10, **IN_ORDER)
    assert batch["number"] == [*range(10)]


def test_state_of_function_that_may_drop_rows_is_refused(ten: SparkDatasetConverter) -> None:
    arguments: dict[str, Any] = {"batch_size": 2, **IN_ORDER}
    dropping = ten.make_torch_dataloader(transform_spec=TransformSpec(negate), **arguments)
    batches = iter(dropping)
    for _ in range(2):
        next(batches)
    keeping = TransformSpec(negate, keeps_rows=True)
    loader = ten.make_torch_dataloader(transform_spec=keeping, **arguments)
    with pytest.raises(StateMismatchError, match="without keeps_rows"):
        loader.load_state_dict(dropping.state_dict())


@pytest.mark.parametrize("epochs", [1, None])
def test_loader_without_length_is_true(ten: SparkDatasetConverter, epochs: int | None) -> None:
    spec = TransformSpec(negate)
    assert ten.make_torch_dataloader(num_epochs=epochs, transform_spec=spec)
    assert ten.make_torch_dataloader(num_epochs=epochs)


def test_filters_may_still_drop_rows(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(
        batch_size=3,
        transform_spec=TransformSpec(negate, keeps_rows=True),
        filters=[("number", ">=", 5)],
        **IN_ORDER,
    )
    with pytest.raises(TypeError, match="number of batches is not known"):
        len(loader)
    assert [batch["number"].tolist() for batch in loader] == [[-5, -6, -7], [-8, -9]]


def test_spec_pickled_before_the_argument_existed_may_drop_rows() -> None:
    spec = TransformSpec(negate)
    del spec.keeps_rows
    assert pickle.loads(pickle.dumps(spec)).keeps_rows is False  # noqa: S301


def test_text_instead_of_flag_raises_error() -> None:
    with pytest.raises(TypeError, match="keeps_rows must be True or False, found 'False'"):
        TransformSpec(negate, keeps_rows="False")  # type: ignore[arg-type]


def test_function_of_the_engine_that_does_not_keep_rows_raises_error(
    small_shards: SparkDatasetConverter,
) -> None:
    class Dropping:
        columns, keeps_rows = ("number",), True

        def __call__(self, batch: Any) -> Any:
            return {"number": batch["number"][1:]}

    local = small_shards.cache_dir_url.removeprefix("file://")
    for order in ({"order": ExactOrder()}, {"batch_size": 4}):
        dataset = StreamingDataset(local=local, transform=Dropping(), **order)
        with pytest.raises(TransformError, match=r"keeps_rows=True returned \d+ rows for \d+"):
            next(iter(StreamingDataLoader(dataset, batch_size=4)))
