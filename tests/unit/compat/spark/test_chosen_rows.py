"""``rows=`` of a converter's loaders and of readers: an epoch consists of these rows."""

import datetime
import random
from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest
import tensorflow as tf
from tests.kit.chains import Chain
from tests.kit.readers import batch_reader, with_either, write_parquet
from tests.unit.compat.spark.converters import (
    IN_ORDER,
    Numbers,
    with_each,
    with_each_in_either_order,
)

from mdstorm import TransformSpec, make_batch_reader, make_reader
from mdstorm.errors import (
    CorruptDatasetError,
    DatasetNotFoundError,
    InvalidArgumentError,
    StateMismatchError,
    UnsupportedArgumentError,
)
from mdstorm.ngram import NGram
from mdstorm.predicates import in_set
from mdstorm.pytorch import BatchedDataLoader
from mdstorm.selectors import SingleIndexSelector
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader")
ROWS = 211
#: TensorFlow's errors keep only the message of the cause.
ERRORS = (InvalidArgumentError, tf.errors.OpError)


def chosen_by(draw: random.Random) -> tuple[Any, list[int]]:
    """Return a value of ``rows=``, and the rows that it chooses."""
    kind = draw.choice(["numbers", "sorted", "slice", "mask"])
    if kind == "slice":
        part = slice(draw.randint(0, 40), draw.randint(80, 300), draw.randint(1, 3))
        return part, list(range(ROWS)[part])
    if kind == "mask":
        mask = np.array([draw.random() < 0.3 for _ in range(ROWS)])
        mask[:20] = True
        return mask, np.flatnonzero(mask).tolist()
    numbers = [draw.randrange(ROWS) for _ in range(draw.randint(20, 200))]
    if kind == "sorted":
        numbers.sort()
    return numbers, numbers


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 120))]
)
def test_random_worlds_read_exactly_the_chosen_rows_in_each_epoch(
    small_shards: SparkDatasetConverter, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(-seed)
    chosen, numbers = chosen_by(draw)
    framework = draw.choice(["torch", "tf", "BatchedDataLoader"])
    shuffles = draw.random() < 0.6
    options: dict[str, Any] = {
        "num_epochs": 1,
        "seed": draw.randint(1, 9),
        "order": draw.choice(["exact", "exact", "elastic"]) if framework == "torch" else "exact",
        "shuffle_row_groups": shuffles,
        "shuffle_rows": shuffles and draw.random() < 0.5,
        "workers_count": draw.choice([1, 3]),
        "rows": chosen,
    }
    if draw.random() < 0.3:
        options["transform_spec"] = TransformSpec(lambda frame: frame, keeps_rows=True)
    if framework == "BatchedDataLoader":
        columns = {"number": range(ROWS)}
        url = write_parquet(tmp_path, columns, row_group_size=draw.choice([7, 50]))
    else:
        options["shuffling_queue_capacity"] = draw.choice([0, 0, 50])

    def make(rank: int, ranks: int, batch_size: int) -> Any:
        world = {"cur_shard": rank, "shard_count": ranks}
        if framework == "BatchedDataLoader":
            return BatchedDataLoader(make_batch_reader(url, **world, **options), batch_size)
        if framework == "tf":
            return small_shards.make_tf_dataset(batch_size=batch_size, **world, **options)
        return small_shards.make_torch_dataloader(batch_size=batch_size, **world, **options)

    def values(batch: Any) -> list[int]:
        found = batch["number"] if isinstance(batch, dict) else batch.number
        return [int(number) for number in found.numpy()]

    if framework == "tf":
        ranks = draw.randint(1, 5)
        size = draw.randint(2, 9)
        # Fewer than all batches, so that the state is within the epoch.
        taken = min(draw.randint(0, 3), len(numbers) // (ranks * size) - 1)
        first = [make(rank, ranks, size) for rank in range(ranks)]
        seen: Counter[int] = Counter()
        for dataset in first:
            for batch in dataset.take(taken) if taken > 1 else ():
                seen.update(values(batch))
        state = first[-1].state_dict(batches=taken) if taken > 1 else None
        left = set()
        ranks = draw.randint(1, 3) if taken > 1 else ranks
        for rank in range(ranks):
            resumed = make(rank, ranks, size)
            if state is not None:
                resumed.load_state_dict(state)
            batches = [values(batch) for batch in resumed]
            left.add(len(batches))
            seen.update(number for batch in batches for number in batch)
        assert seen == Counter(numbers), (options, ranks, taken)
        assert len(left) == 1
        return
    worlds = Chain(
        seed,
        make,
        values,
        # The elastic order cannot share every batch among other numbers of ranks.
        changes_world=options["order"] == "exact",
    )
    worlds.run()
    expected = Counter(
        {number: count * worlds.epochs for number, count in Counter(numbers).items()}
    )
    assert not expected - worlds.seen, (options, worlds.steps)
    assert set(worlds.seen) == set(expected)
    if options["order"] == "exact":  # the elastic order repeats rows to fill the last batch
        assert worlds.seen == expected, (options, worlds.steps)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"rows": [3, 211]}, "rows has row 211, but the 211 rows"),
        ({"rows": [-1]}, "rows has row -1"),
        ({"rows": [True] * 3}, "rows has 3 values"),
        ({"where": [("no", "=", 1)]}, "has no column 'no'"),
        ({"where": pc.field("no") > 1}, "no > 1"),
        ({"where": [("number", "=", "a")]}, "cannot compare column 'number'"),
    ],
    ids=str,
)
def test_choice_that_does_not_match_raises_error_when_the_loader_is_made(
    small_shards: SparkDatasetConverter, choice: dict[str, Any], words: str
) -> None:
    converter = make_spark_converter(str(small_shards.cache_dir_url))
    with pytest.raises(InvalidArgumentError, match=words):
        converter.make_torch_dataloader(**choice)
    converter.file_urls = converter.file_urls[:1]  # their rows are known only once they are opened
    converter.make_torch_dataloader(**choice)


def test_choice_is_checked_without_reading(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(9)})
    converter = make_spark_converter(url)
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    loader = converter.make_torch_dataloader(rows=[1, 2], where=[("number", ">", 1)])
    with pytest.raises(DatasetNotFoundError):
        next(iter(loader))


def test_conditions_are_checked_with_the_types_that_are_read(tmp_path: Path) -> None:
    # Arrow does not compare float16.
    converter = make_spark_converter(write_parquet(tmp_path, {"x": np.arange(3, dtype="f2")}))
    options: dict[str, Any] = {"where": [("x", ">", 1.0)], "num_epochs": 1}
    with pytest.raises(InvalidArgumentError, match="cannot compare column 'x' of type halffloat"):
        converter.make_torch_dataloader(**options)
    loader = converter.make_torch_dataloader(**options, dtype="float32")
    assert [batch["x"].tolist() for batch in loader] == [[2.0]]


@with_each_in_either_order
def test_rows_keep_their_order_without_shuffling(
    small_shards: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    rows = [5, 3, 3, 200, *range(60, 70)]
    assert numbers(small_shards, rows=rows, order=order, **IN_ORDER) == rows
    assert numbers(small_shards, rows=slice(200, None), order=order, **IN_ORDER) == [
        *range(200, 211)
    ]


@with_each_in_either_order
def test_conditions_choose_rows(
    small_shards: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    options = {"order": order, **IN_ORDER}
    assert numbers(small_shards, where=[("number", ">", 205)], **options) == [*range(206, 211)]
    where = (pc.field("number") < 3) | (pc.field("number") == 207)
    assert numbers(small_shards, where=where, **options) == [0, 1, 2, 207]
    assert numbers(small_shards, where=where, rows=[207, 5, 1, 1], **options) == [207, 1, 1]


@with_each
def test_function_that_drops_rows_gets_only_the_chosen_rows(
    small_shards: SparkDatasetConverter, numbers: Numbers
) -> None:
    def odd(frame: Any) -> Any:
        return frame[frame["number"] % 2 == 1] if isinstance(frame, pd.DataFrame) else frame

    rows = [5, 3, 3, 200, 7, 201]
    found = numbers(small_shards, rows=rows, transform_spec=TransformSpec(odd), **IN_ORDER)
    assert [number for number in found if number % 2] == [5, 3, 3, 7, 201]


@with_each
@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"predicate": in_set({1}, "number")}, "predicate="),
        ({"filters": [("number", "<", 5)]}, "filters="),
        ({"rowgroup_selector": SingleIndexSelector("index", ["a"])}, "rowgroup_selector="),
    ],
    ids=["predicate", "filters", "selector"],
)
def test_rows_with_another_selection_raise_an_error(
    small_shards: SparkDatasetConverter, numbers: Numbers, other: dict[str, Any], name: str
) -> None:
    with pytest.raises(UnsupportedArgumentError, match=rf"rows= states the rows.*{name}"):
        numbers(small_shards, rows=[1, 2], **other, **IN_ORDER)


def test_rows_with_ngram_raise_an_error(small_shards: SparkDatasetConverter) -> None:
    fields = NGram({0: ["number"], 1: ["number"]}, 1, "number")
    with pytest.raises(UnsupportedArgumentError, match=r"rows= states the rows.*an NGram"):
        make_reader(small_shards.cache_dir_url, schema_fields=fields, rows=[1])


@with_each
@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([("nmber", "=", 1)], "nmber"),
        (pc.field("nmber") == 1, "nmber"),
        ([("number", "<", 0)], "matches none of the 211 rows"),
        ([("number", "~", 0)], "operators are"),
    ],
    ids=["column", "expression", "none", "operator"],
)
def test_wrong_conditions_raise_an_error(
    small_shards: SparkDatasetConverter, numbers: Numbers, where: Any, message: str
) -> None:
    with pytest.raises(ERRORS, match=message):
        numbers(small_shards, where=where, **IN_ORDER)


@pytest.fixture
def two_files(tmp_path: Path) -> str:
    """Two partitions, the second of which can be opened but not read, with rows from 10 to 19."""
    for number in range(2):
        columns = {"number": range(10 * number, 10 * number + 10)}
        write_parquet(tmp_path / "data" / f"part={number}", columns)
    path = tmp_path / "data" / "part=1" / "part.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(100) + content[104:])
    return f"file://{tmp_path}/data"


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("where", [[("number", "<", 7)], [("part", "=", "0"), ("number", "<", 7)]])
def test_row_groups_that_cannot_match_are_not_read(two_files: str, where: Any, parts: int) -> None:
    for name in ("filters", "where"):
        made = batch_reader(two_files, **{name: where}, shuffle_row_drop_partitions=parts)
        assert [int(n) for item in made for n in item.number] == [*range(7)]
    with pytest.raises(CorruptDatasetError):
        batch_reader(two_files, where=pc.field("number") < 7)


def test_partitions_that_cannot_match_leave_no_rows(two_files: str) -> None:
    with pytest.raises(InvalidArgumentError, match="matches none of the 20 rows"):
        batch_reader(two_files, where=[("part", "=", 7)])
    with pytest.raises(InvalidArgumentError, match=r"where=.*'prt'.*part"):
        batch_reader(two_files, where=[("prt", "=", 7)])


def test_conditions_match_the_rows_that_filters_match(tmp_path: Path) -> None:
    columns = {
        "number": range(20),
        "text": [None, "a", "b", "c"] * 5,
        "half": [None if n % 7 == 0 else n / 2 for n in range(20)],
        "time": [datetime.datetime(2026, 1, 1, n, tzinfo=datetime.timezone.utc) for n in range(20)],
    }
    url = write_parquet(tmp_path, columns)
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
    for conditions in (
        [("number", ">", 3), ("text", "=", "a")],
        [[("text", "in", ["a", "c"])], [("number", "=", 2)]],
        [("text", "not in", ["a", "c"])],
        [("text", "=", None)],
        [("half", "!=", None), ("half", "<=", 5)],
        [("time", ">=", noon)],
        [("time", "<", noon.replace(tzinfo=None))],
    ):
        filtered, chosen = (
            [int(n) for item in batch_reader(url, **{name: conditions}) for n in item.number]
            for name in ("filters", "where")
        )
        assert chosen == filtered, conditions


@with_each
@pytest.mark.parametrize(
    ("wrong", "message"),
    [([3, ROWS], f"row {ROWS}"), ([], "chooses no rows"), (np.ones(9, bool), "9 values")],
)
def test_wrong_rows_raise_an_error(
    small_shards: SparkDatasetConverter, numbers: Numbers, wrong: Any, message: str
) -> None:
    with pytest.raises(ERRORS, match=message):
        numbers(small_shards, rows=wrong, **IN_ORDER)


@with_either
def test_reader_yields_the_chosen_rows_of_each_row_group(tmp_path: Path, reader: Any) -> None:
    url = write_parquet(tmp_path, {"number": range(20)})
    found = [np.atleast_1d(item.number).tolist() for item in reader(url, rows=[1, 2, 9, 17])]
    assert [*chain.from_iterable(found)] == [1, 2, 9, 17]
    if reader is batch_reader:
        assert found == [[1, 2], [9], [17]]


def test_null_arrays_get_the_shape_of_other_rows(tmp_path: Path) -> None:
    columns = {"number": range(20), "vec": [None] * 5 + [[1.0, 2.0]] * 15}
    url = write_parquet(tmp_path, columns)
    (batch,) = batch_reader(url, rows=[1, 0], fill_nulls={"vec": 0.5})
    assert batch.vec.tolist() == [[0.5, 0.5]] * 2


def test_split_row_groups_have_the_chosen_rows(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(20)})
    made = batch_reader(url, rows=[1, 3, 9, 17], shuffle_row_drop_partitions=2)
    assert [item.number.tolist() for item in made] == [[1], [3], [9], [17]]
    assert len(made.dataset) == 4
    assert len(made.dataset.files) == 1


def test_local_disk_cache_keeps_results_for_each_selection(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "data", {"number": range(20)})
    cache = {"cache_type": "local-disk", "cache_location": str(tmp_path / "cache")}
    kept = {**cache, "cache_size_limit": 1 << 20, "cache_row_size_estimate": 8}
    kept["cache_extra_settings"] = {"cleanup": False}
    for rows in ([1, 3, 9, 17], [2, 3, 9, 17], [1, 3, 9, 17]):
        made = batch_reader(url, rows=rows, **kept)
        assert [int(n) for item in made for n in item.number] == rows


def test_state_of_other_rows_is_refused(small_shards: SparkDatasetConverter) -> None:
    options = {"batch_size": 2, **IN_ORDER}
    loader = small_shards.make_torch_dataloader(rows=[1, 2, 3, 4, 5, 6], **options)
    list(islice(loader, 2))
    other = small_shards.make_torch_dataloader(rows=[1, 2, 3, 4, 5, 7], **options)
    with pytest.raises(StateMismatchError, match=r"rows: .*pass the same rows"):
        other.load_state_dict(loader.state_dict())
