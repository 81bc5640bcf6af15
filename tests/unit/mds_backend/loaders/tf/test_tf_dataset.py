"""TensorFlow datasets: batches, graphs, lengths, and states in both orders."""

import gc
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.kit.loaders import Filter, Launch, Repeat, Where, options_of, taken
from tests.kit.loaders import column as torch_column
from tests.kit.loaders import torch_loader as torch_of
from tests.kit.small_datasets import array_of, write_dataset, write_numbers

from mdstorm_backend import (
    Dataset,
    ElasticOrder,
    ExactOrder,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import Epochs, ReaderOptions
from mdstorm_backend.loaders.tf import ColumnSpec, make_tf_dataset, tf_batches, tf_pipeline, tf_runs
from mdstorm_backend.loaders.tf.tf_runs import INFINITE

with_strategies = pytest.mark.parametrize(
    "name", ["MirroredStrategy", pytest.param("OneDeviceStrategy", marks=pytest.mark.long)]
)
#: Loops without Keras may resume within an epoch.
pytestmark = pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset")

ROWS, SHARDS = 100, 10


def make(dataset: Dataset, batch_size: int = 4, **options: Any) -> Any:
    """Make a dataset that reads in stored order by default."""
    order = ExactOrder(**options.pop("shuffle", {})).resolved()
    specs = options.pop("specs", None)
    read = options_of(dataset, order, **options)
    return make_tf_dataset(lambda: read, batch_size=batch_size, specs=specs)


def number_spec(options: ReaderOptions) -> list[ColumnSpec]:
    return [ColumnSpec("number", "int64")]


def column(batches: Iterable[Any], name: str = "number") -> list[list[Any]]:
    return [getattr(batch, name).numpy().tolist() for batch in batches]


@pytest.mark.matrix
@pytest.mark.parametrize("block_rows", [1, 10, 1 << 16])
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_batches_of_any_size_can_be_cut_from_blocks_of_any_size(
    numbers: Dataset, batch_size: int, block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tf_pipeline, "BLOCK_ROWS", block_rows)
    batches = column(make(numbers, batch_size, num_epochs=2))
    rows = [*range(100)] * 2
    assert batches == [rows[i : i + batch_size] for i in range(0, 200, batch_size)]


def test_batches_are_namedtuples_in_column_order(tmp_path: Path) -> None:
    fields = {"z": "long", "a": "string", "m": array_of("float"), "r": array_of("integer")}
    values = {"z": [1, 2], "a": ["x", "y"], "m": [[0.5], [1.5]], "r": [[], [1, 2]]}
    dataset = make(write_dataset(tmp_path, values, fields))
    (batch,) = dataset
    assert batch._fields == ("z", "a", "m", "r")
    assert batch.z.numpy().tolist() == [1, 2]
    assert batch.a.numpy().tolist() == [b"x", b"y"]
    assert isinstance(batch.r, tf.RaggedTensor)
    assert batch.r.to_list() == [[], [1, 2]]
    assert dataset.element_spec.m == tf.TensorSpec((None, 1), tf.float32)
    assert dataset.element_spec.z == tf.TensorSpec((None,), tf.int64)


@pytest.mark.newest
@pytest.mark.matrix
@pytest.mark.parametrize("block_rows", [1, 1 << 16])
@pytest.mark.parametrize(
    ("transform", "batch_size", "num_epochs", "world_size"),
    [
        pytest.param(Where(lambda number: number % 2 == 0), 7, 1, 2, marks=pytest.mark.long),
        (Repeat(1), 1, 3, 3),  # the empty batch of a rank with one row fewer begins a block
        (Repeat(3), 7, 3, 2),
    ],
)
def test_transformed_batches_on_several_ranks_are_the_same_as_in_pytorch(
    numbers: Dataset,
    transform: Any,
    batch_size: int,
    num_epochs: int,
    world_size: int,
    block_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transform may return more or fewer rows than were planned for a group of batches."""
    monkeypatch.setattr(tf_pipeline, "BLOCK_ROWS", block_rows)
    options = {"batch_size": batch_size, "num_epochs": num_epochs, "transform": transform}
    found = Counter[int]()
    for rank in range(world_size):
        options["shuffle"] = {"rank": rank, "world_size": world_size}
        dataset = make(numbers, specs=number_spec, **options)
        batches = column(dataset)
        assert batches == torch_column(torch_of(numbers, **options))
        assert len(dataset) == len(batches)
        found.update(chain.from_iterable(batches))
    rows = transform({"number": np.arange(ROWS)})["number"].tolist()
    assert found == Counter(rows * num_epochs)


def test_infinite_dataset_continues_with_the_next_epoch(numbers: Dataset) -> None:
    batches = iter(make(numbers, 60, num_epochs=None))
    found = list(chain.from_iterable(column(next(batches) for _ in range(10))))
    assert found == [i % 100 for i in range(600)]


def test_make_one_shot_iterator_returns_batches(numbers: Dataset) -> None:
    with tf.Graph().as_default(), make(numbers, 30) as dataset:
        batch = dataset.make_one_shot_iterator().get_next()
        with tf.compat.v1.Session() as session:
            assert session.run(batch).number.tolist() == list(range(30))
            assert session.run(batch.number).tolist() == list(range(30, 60))


def test_dataset_made_eagerly_can_be_entered_and_read_in_a_graph(numbers: Dataset) -> None:
    dataset = make(numbers, 30, num_epochs=2)
    expected = column(dataset)
    with tf.Graph().as_default(), dataset as entered, tf.compat.v1.Session() as session:
        assert entered is not dataset
        batch = tf.compat.v1.data.make_one_shot_iterator(entered).get_next()
        assert [session.run(batch).number.tolist() for _ in expected] == expected
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(batch)


@pytest.mark.parametrize(("world_size", "policy"), [(1, "AUTO"), (2, "OFF")])
def test_sharded_dataset_is_not_sharded_again_by_tensorflow(
    numbers: Dataset, world_size: int, policy: str
) -> None:
    dataset = make(numbers, shuffle={"world_size": world_size})
    found = dataset.options().experimental_distribute.auto_shard_policy
    assert found == tf.data.experimental.AutoShardPolicy[policy]


def test_nulls_are_filled_and_masked(tmp_path: Path) -> None:
    dataset = write_dataset(
        tmp_path,
        {"a": [1, None], "b": [None, 0.5], "c": [None, "x"]},
        {"a": "long", "b": "float", "c": "string"},
    )
    (batch,) = make(dataset, fill_nulls={"a": 7}, null_masks=("c",))
    assert batch.a.numpy().tolist() == [1, 7]
    assert repr(batch.b.numpy().tolist()) == "[nan, 0.5]"
    assert batch.c.numpy().tolist() == [b"", b"x"]
    assert batch.c_is_null.numpy().tolist() == [True, False]


def test_damaged_shard_raises_error_in_loop(tmp_path: Path) -> None:
    stored = write_numbers(tmp_path, 20, tasks=2)
    Path(stored.location.path, stored.index.shards[1].raw_data.basename).write_bytes(b"damaged")
    dataset = open_dataset(stored.url)
    with pytest.raises(tf.errors.OpError, match="holds 7 bytes, but the index records") as raised:
        list(make(dataset))
    # Python's traceback, which TensorFlow puts in front of the message, does not describe damage.
    assert str(raised.value).count(os.path.join("mdstorm_backend", "")) == 1


def test_leaving_the_context_closes_shards(tmp_path: Path) -> None:
    stored = write_numbers(tmp_path, 100, tasks=10)
    with make(stored) as dataset:
        list(dataset)
        assert stored.find_open(9) is not None
    gc.collect()
    assert [number for number in range(10) if stored.find_open(number)] == []
    assert len(list(dataset)) == 25


@pytest.mark.parametrize("batches", [1, 25])
def test_pass_threads_end_with_the_iterator(tmp_path: Path, batches: int) -> None:
    before = set(threading.enumerate())
    rows = {"word": [str(i) for i in range(100)]}
    dataset = make(write_dataset(tmp_path, rows, {"word": "string"}, tasks=10))
    iterator = iter(dataset)
    for _ in range(batches):
        next(iterator)
    del iterator
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("mdstorm-prefetch"):
            thread.join(30)
            assert not thread.is_alive()


AUTO = {"follows_world": True}


def rows(batches: Any) -> list[int]:
    return [number for batch in column(batches) for number in batch]


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"num_epochs": 3}, 43),
        ({"num_epochs": None}, INFINITE),
        ({"shuffle": {"rank": 1, "world_size": ROWS}}, 1),
        ({"shuffle": AUTO}, 15),
    ],
)
def test_cardinality_is_the_number_of_batches(
    numbers: Dataset, options: dict[str, Any], batches: int
) -> None:
    dataset = make(numbers, 7, **options)
    assert int(dataset.cardinality()) == batches
    if batches != INFINITE:
        assert len(dataset) == len(list(dataset)) == batches


def test_derived_datasets_have_known_cardinality(numbers: Dataset) -> None:
    changed = make(numbers, 7).map(lambda batch: batch.number).prefetch(1).map(lambda n: n * 2)
    assert len(changed) == 15
    assert len(changed.repeat(3)) == len(list(changed.repeat(3))) == 45
    with tf.Graph().as_default():
        changed = make(numbers, 7).map(lambda batch: batch.number)
        assert isinstance(changed, tf.compat.v1.data.Dataset)
        changed.make_one_shot_iterator()


CONCATENATED: dict[str, Any] = {
    "made": lambda dataset: dataset,
    "prefetched": lambda dataset: dataset.prefetch(1),
    "mapped": lambda dataset: dataset.map(lambda batch: batch),
    "plain": lambda dataset: tf.data.Dataset.from_tensors(next(iter(dataset))).repeat(15),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second", "num_epochs"),
    [
        ("made", "made", 1),
        ("made", "prefetched", None),
        ("made", "plain", 1),
        ("prefetched", "mapped", 3),
        ("mapped", "made", 1),
    ],
)
def test_concatenated_datasets_return_the_batches_of_both_datasets(
    numbers: Dataset, first: str, second: str, num_epochs: int | None
) -> None:
    begin = CONCATENATED[first](make(numbers, 7))
    both = begin.concatenate(CONCATENATED[second](make(numbers, 7, num_epochs=num_epochs)))
    batches = column(both.take(17))
    assert [len(batch) for batch in batches] == [7] * 14 + [2] + [7] * 2
    assert batches[15:] == ([batches[0]] * 2 if second == "plain" else batches[:2])
    many = 15 if second == "plain" else {1: 15, 3: 43, None: None}[num_epochs]
    assert int(both.cardinality()) == (INFINITE if many is None else 15 + many)


@pytest.mark.long
def test_concatenated_datasets_keep_namedtuples_and_ragged_columns(tmp_path: Path) -> None:
    fields = {"z": "long", "a": "string", "r": array_of("integer")}
    values = {"z": [1, 2, 3], "a": ["x", "y", "z"], "r": [[], [1, 2], [3]]}
    data = write_dataset(tmp_path, values, fields)
    batches = list(make(data, 2).concatenate(make(data, 2)))
    assert [batch.z.numpy().tolist() for batch in batches] == [[1, 2], [3]] * 2
    assert [batch.r.to_list() for batch in batches] == [[[], [1, 2]], [[3]]] * 2
    assert type(batches[0]) is type(next(iter(make(data, 2))))


def test_share_larger_than_at_dataset_creation_raises_error(
    numbers: Dataset, launch: Launch
) -> None:
    launch(0, 2)
    dataset = make(numbers, 7, shuffle=AUTO)
    assert rows(dataset) == list(range(50))
    launch(0, 1)
    with pytest.raises(tf.errors.OpError, match="has 15 batches to read, but had 8 when"):
        list(dataset)


def test_share_smaller_than_at_dataset_creation_is_read(tmp_path: Path, launch: Launch) -> None:
    dataset = make(write_numbers(tmp_path, 100, tasks=10), 7, shuffle=AUTO)
    launch(1, 2)
    assert rows(dataset) == list(range(50, 100))


#: An epoch with 100 rows is not a whole number of batches.
BATCH = 8
ORDERS = {
    "exact": ExactOrder(seed=3, shuffle_shards=True, window=20),
    "elastic": ElasticOrder(batch_size=BATCH, shuffle=True, shuffle_seed=3),
}
with_either_order = pytest.mark.parametrize("order", ORDERS)


def made_in(order: str, dataset: Dataset, **options: Any) -> Any:
    read = options_of(dataset, ORDERS[order], **options)
    return make_tf_dataset(lambda: read, batch_size=BATCH)


def test_cardinality_in_the_elastic_order_is_unknown(numbers: Dataset) -> None:
    assert int(made_in("elastic", numbers).cardinality()) == tf.data.UNKNOWN_CARDINALITY


def torch_loader(dataset: Dataset, order: str, **options: Any) -> StreamingDataLoader:
    """Make PyTorch's loader with the same batches, which reads them faster."""
    source = StreamingDataset(local=dataset.url, order=ORDERS[order], **options)
    return StreamingDataLoader(source, batch_size=BATCH)


def epochs_of(dataset: Dataset, count: int, order: str = "exact", **options: Any) -> list[Any]:
    """Return the batches of each of the first passes."""
    loader = torch_loader(dataset, order, **options)
    return [torch_column(loader) for _ in range(count)]


def resumed(dataset: Dataset, done: int) -> Any:
    """Make a dataset that resumes after `done` batches."""
    first, second = torch_loader(dataset, "exact"), made_in("exact", dataset)
    taken(first, done)
    second.load_state_dict(first.state_dict())
    return second


def test_state_after_a_tf_function_requires_the_number_of_batches(numbers: Dataset) -> None:
    first, second = (made_in("elastic", numbers) for _ in range(2))
    (whole,) = epochs_of(numbers, 1, "elastic")

    @tf.function
    def step(iterator: Any) -> Any:
        return next(iterator).number

    iterator = iter(first)
    assert [step(iterator).numpy().tolist() for _ in range(3)] == whole[:3]
    with pytest.raises(StateMismatchError, match=r"TensorFlow took them itself.*batches="):
        first.state_dict()
    second.load_state_dict(first.state_dict(batches=3))
    assert column(second) == whole[3:]
    with pytest.raises(StateMismatchError, match="no state after 99 batches"):
        first.state_dict(batches=99)


def test_state_after_tensorflow_has_taken_all_batches_resumes_with_next_epoch(
    numbers: Dataset,
) -> None:
    # In the exact order TensorFlow knows the number of batches, and does not request the end.
    first, second = made_in("elastic", numbers), made_in("elastic", numbers)
    assert first.reduce(0, lambda count, _: count + 1) == len(column(second))
    assert first.state_dict() == second.state_dict()


def test_next_iteration_after_one_left_in_its_third_epoch_begins_the_fourth(
    numbers: Dataset,
) -> None:
    passes: list[Epochs] = []
    dataset = make(numbers, 7, num_epochs=None, on_pass=passes.append)
    assert len(column(islice(dataset, 30))) == 30
    assert passes[-1].following().start.epoch == 3


@with_either_order
def test_states_in_the_second_epoch_are_interchangeable_with_pytorch(
    numbers: Dataset, order: str
) -> None:
    first, second = (made_in(order, numbers, num_epochs=None) for _ in range(2))
    torch = torch_loader(numbers, order, num_epochs=None)
    iterator = iter(first)
    column(islice(iterator, 20))
    torch.load_state_dict(first.state_dict())
    batches = iter(torch)
    assert torch_column(islice(batches, 3)) == column(islice(iterator, 3))
    second.load_state_dict(torch.state_dict())
    assert column(islice(second, 3)) == torch_column(islice(batches, 3))


@pytest.mark.long
@pytest.mark.parametrize("prefetch", [None, 0])
def test_next_iteration_begins_after_the_last_epoch_with_used_batches(
    numbers: Dataset, prefetch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch counts only if its batches were used, not if it was just read ahead."""
    monkeypatch.setattr(tf_pipeline, "BLOCK_ROWS", 1)
    torch = torch_loader(numbers, "exact", num_epochs=None)
    read = ReaderOptions(numbers, ORDERS["exact"], num_epochs=None)
    dataset = make_tf_dataset(lambda: read, batch_size=BATCH, prefetch=prefetch)
    for batches in (12, 13, 26, 30, 1, 5):
        assert column(dataset.take(batches)) == taken(torch, batches)


def test_batch_requested_before_its_block_is_read_advances_the_epoch(numbers: Dataset) -> None:
    read = ReaderOptions(numbers, ORDERS["exact"], batch_size=BATCH, num_epochs=None)
    runs = tf_runs.TFRuns(read, lambda by_python: 1)
    iteration = runs.iterations()
    number = next(iteration)
    first_of_second_epoch = len(numbers) // BATCH + 1
    requested = [runs.request(number) for _ in range(first_of_second_epoch)]
    assert requested == [1] * first_of_second_epoch
    blocks: Any = (block for _, found in runs.segments(number, 1) for block in found)
    list(islice(blocks, first_of_second_epoch))
    blocks.close()
    iteration.close()  # type: ignore[attr-defined]
    assert runs.loader.epochs.next_position.epoch == 2


def test_peek_after_load_keeps_rest_of_epoch(numbers: Dataset) -> None:
    dataset = made_in("exact", numbers, num_epochs=None)
    column(islice(dataset, 4))
    dataset.load_state_dict(dataset.state_dict())
    (peeked,) = column(dataset.take(1))
    first, *_ = column(islice(dataset, 2))
    assert first == peeked
    # An iteration of two batches is not a peek, so the next iteration does not repeat them.
    assert column(dataset.take(1)) != [peeked]


def test_peek_by_replicas_that_request_ahead_keeps_rest_of_epoch(
    numbers: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tf_batches, "most_peeked", lambda by_python: 1 if by_python else 4)
    first, second = made_in("exact", numbers), made_in("exact", numbers)
    (whole,) = epochs_of(numbers, 1)
    column(islice(first, 4))
    second.load_state_dict(first.state_dict())
    assert column(taken_by_tensorflow(second, 4))[:1] == whole[4:5]
    assert column(mapped(second)) == whole[4:]
    # An iteration of five batches without an earlier peek is more than a peek.
    second.load_state_dict(first.state_dict())
    assert column(taken_by_tensorflow(second, 5)) == whole[4:9]
    assert column(second.take(1)) != whole[4:5]


def taken_by_tensorflow(dataset: Any, batches: int) -> Any:
    """Return the first batches as a dataset whose iterators do not report requests by Python."""
    return tf.data.Dataset.take(dataset, batches)


def mapped(dataset: Any) -> Any:
    """Return a dataset for which TensorFlow calls a function ahead of use."""
    return dataset.map(lambda batch: batch)


def read_at_once(dataset: Any) -> Any:
    """Return a dataset that reads all batches and requests the end before the first batch."""
    return dataset.shuffle(ROWS)


#: How an iteration over a dataset is used in which a number of batches remain.
USES: dict[str, Any] = {
    "a loop": lambda dataset, left: dataset,
    "a loop that ends at its last batch": islice,
    "a loop that is left": lambda dataset, left: islice(dataset, 6),
    "map": lambda dataset, left: mapped(dataset),
    "map and take": lambda dataset, left: mapped(dataset).take(left),
    "map and take some": lambda dataset, left: mapped(dataset).take(6),
    "take some": lambda dataset, left: taken_by_tensorflow(dataset, 6),
    "prefetch": lambda dataset, left: mapped(dataset).prefetch(3).take(left),
    "repeat": lambda dataset, left: mapped(dataset).repeat().take(left),
    "larger batches": lambda dataset, left: dataset.unbatch().batch(2 * BATCH).take(-(-left // 2)),
    "reading at once": lambda dataset, left: read_at_once(dataset).take(left),
}


#: Uses that request batches in different ways; the others differ in what they call.
FEW_USES = ("a loop that is left", "map and take some", "reading at once")


@pytest.mark.matrix
@pytest.mark.parametrize(
    "use",
    [use if use in FEW_USES else pytest.param(use, marks=pytest.mark.long) for use in USES],
)
@pytest.mark.parametrize("done", [3, -(-ROWS // BATCH)], ids=["within", "at the end"])
def test_rows_of_resumed_epoch_are_logged_as_skipped_only_if_they_are(
    numbers: Dataset, use: str, done: int, caplog: pytest.LogCaptureFixture
) -> None:
    whole = -(-ROWS // BATCH)
    dataset, left = resumed(numbers, done), whole - done or whole
    seen = list(chain.from_iterable(column(USES[use](dataset, left))))
    assert not caplog.messages
    column(USES[use](dataset, whole))
    skipped = ROWS - done * BATCH - len(seen) if done < whole else 0
    found = [int(re.findall(r"at least (\d+) rows", text)[0]) for text in caplog.messages]
    assert (found == []) == (skipped == 0)
    assert all(0 < rows <= skipped for rows in found)
    if use == "a loop that is left":
        assert sum(found) == skipped


@pytest.mark.long
@pytest.mark.parametrize("done", [2, 10])
def test_peek_at_mapped_dataset_keeps_rest_of_epoch(numbers: Dataset, done: int) -> None:
    dataset, (whole,) = resumed(numbers, done), epochs_of(numbers, 1)
    next(iter(mapped(dataset)))
    assert column(mapped(dataset)) == whole[done:]
    assert len(column(mapped(dataset))) == len(whole)


@pytest.mark.long
@pytest.mark.parametrize("done", [1, 10])
def test_peek_that_requests_batches_ahead_uses_up_the_epoch(numbers: Dataset, done: int) -> None:
    dataset, (_, following) = resumed(numbers, done), epochs_of(numbers, 2)
    next(iter(read_at_once(dataset)))
    assert column(dataset) == following


@pytest.mark.matrix
@pytest.mark.parametrize("made", [mapped, read_at_once])
@pytest.mark.parametrize("done", [0, 10])
def test_iterator_that_reads_ahead_uses_up_epoch_from_second_batch(
    numbers: Dataset, made: Any, done: int
) -> None:
    dataset, (_, following) = resumed(numbers, done), epochs_of(numbers, 2)
    kept = iter(made(dataset))
    next(kept), next(kept)
    assert column(dataset) == following


def rest_of_graph(iterator: Any) -> None:
    """Take the remaining batches in a tf.function."""

    @tf.function
    def take_rest(iterator: Any) -> Any:
        count = tf.constant(0)
        for _ in iterator:
            count += 1
        return count

    take_rest(iterator)


def more_in_closure(iterator: Any) -> None:
    """Take more batches in a tf.function that has no parameters."""

    @tf.function
    def take() -> Any:
        return next(iterator).number

    for _ in range(4):
        take()


def rest_by_optionals(iterator: Any) -> None:
    """Take the remaining batches without exceptions."""
    while iterator.get_next_as_optional().has_value():
        pass


@pytest.mark.parametrize(
    "rest",
    [rest_of_graph, pytest.param(rest_by_optionals, marks=pytest.mark.long), more_in_closure],
)
@pytest.mark.parametrize(
    "made",
    [
        lambda dataset: dataset,
        *(pytest.param(made, marks=pytest.mark.long) for made in (mapped, read_at_once)),
    ],
)
def test_iterator_used_by_python_and_then_by_tensorflow_uses_up_epoch(
    numbers: Dataset, made: Any, rest: Any
) -> None:
    dataset, (_, following) = made_in("exact", numbers), epochs_of(numbers, 2)
    iterator = iter(made(dataset))
    next(iterator)
    rest(iterator)
    assert column(dataset) == following


def test_epochs_that_tensorflow_counts_are_not_logged_as_endless(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    iterator = iter(make(write_numbers(tmp_path, 10), 4, num_epochs=None))
    next(iterator)
    more_in_closure(iterator)
    assert not caplog.messages


@pytest.mark.long
@pytest.mark.parametrize(
    "made",
    [
        lambda dataset: dataset.filter(lambda batch: False),
        lambda dataset: dataset.skip(5),
        lambda dataset: dataset.unbatch().batch(ROWS, drop_remainder=True),
    ],
    ids=["filter", "skip", "batch"],
)
def test_end_without_batches_uses_up_rest_of_epoch(numbers: Dataset, made: Any) -> None:
    dataset, (_, following) = resumed(numbers, 10), epochs_of(numbers, 2)
    assert list(made(dataset)) == []
    assert column(dataset) == following


@pytest.mark.long
def test_two_epochs_read_at_once_use_up_both(numbers: Dataset) -> None:
    dataset = made_in("elastic", numbers, num_epochs=2)
    _, following = epochs_of(numbers, 2, "elastic", num_epochs=2)
    column(read_at_once(dataset))
    assert column(dataset) == following


@pytest.mark.long
@pytest.mark.parametrize("made", [lambda dataset: dataset, mapped], ids=["itself", "map"])
def test_unused_iterator_does_not_replace_repeated_one(numbers: Dataset, made: Any) -> None:
    dataset = made_in("exact", numbers)
    epochs = [*chain(*epochs_of(numbers, 2))]
    unused = iter(made(dataset))
    assert sorted(column(read_at_once(dataset.repeat(2)))) == sorted(epochs)
    del unused


@pytest.mark.long
def test_iterator_that_began_no_iteration_does_not_replace_a_later_one(numbers: Dataset) -> None:
    dataset, epochs = made_in("exact", numbers), epochs_of(numbers, 2)
    kept = iter(dataset.take(0))
    assert next(kept, None) is None
    assert [column(taken_by_tensorflow(dataset, ROWS)) for _ in range(2)] == epochs
    del kept


@pytest.mark.long
def test_epochs_of_dataset_that_reads_ahead_follow_each_other(numbers: Dataset) -> None:
    dataset, epochs = made_in("exact", numbers), epochs_of(numbers, 4)
    assert [column(mapped(dataset)) for _ in range(2)] == epochs[:2]
    assert column(mapped(dataset).repeat(2)) == epochs[2] + epochs[3]


@pytest.mark.long
@pytest.mark.parametrize("done", [0, 12])
def test_repeated_dataset_begins_next_epoch_ahead_of_use(numbers: Dataset, done: int) -> None:
    dataset, epochs = resumed(numbers, done), [*chain(*epochs_of(numbers, 2))][done:]
    assert sorted(column(read_at_once(dataset.repeat(2)))) == sorted(epochs)


def test_iterator_in_a_tf_function_peeks_at_one_batch_in_any_process(
    numbers: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even in one that uses Keras on JAX, or that has created a strategy."""
    monkeypatch.setattr(tf_batches, "most_peeked", lambda by_python: 1 if by_python else 20)
    dataset, (_, following) = made_in("exact", numbers), epochs_of(numbers, 2)

    @tf.function
    def step(iterator: Any) -> Any:
        return next(iterator)

    kept = iter(dataset)
    step(kept), step(kept)
    assert column(dataset) == following


@pytest.mark.parametrize("left", [pytest.param(1, marks=pytest.mark.long), 5])
def test_two_batches_that_keras_takes_on_jax_keep_rest_of_epoch(
    numbers: Dataset, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    (whole,) = epochs_of(numbers, 1)
    dataset = resumed(numbers, len(whole) - left)
    column(islice(dataset, 2))
    assert column(dataset) == whole[-left:]


def strategy_called(name: str) -> Any:
    """Return a strategy with one replica."""
    return getattr(tf.distribute, name)("/cpu:0" if name == "OneDeviceStrategy" else ["/cpu:0"])


def recording_model(trained: list[list[int]]) -> Any:
    """Return a model that appends the numbers in each batch to `trained`."""

    class Recorder(keras.layers.Layer):
        def call(self, numbers: Any) -> Any:  # Keras has converted them to float32
            tf.numpy_function(lambda rows: trained.append(rows.tolist()), [numbers], [])
            return tf.expand_dims(tf.cast(numbers, tf.float32), 1)

    model = keras.Sequential([Recorder(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # the first epoch is incomplete
@with_strategies
def test_fit_under_strategy_with_one_replica_resumes_with_rest_of_epoch(
    numbers: Dataset, name: str
) -> None:
    """Keras takes a batch first, and the strategy and `map` request others ahead."""
    dataset, (whole,) = resumed(numbers, 4), epochs_of(numbers, 1)
    trained: list[list[int]] = []
    with strategy_called(name).scope():
        model = recording_model(trained)
    model.fit(dataset.map(lambda batch: (batch.number, batch.number)), shuffle=False, verbose=0)
    assert trained == whole[4:]


@pytest.mark.long
@pytest.mark.newest  # Keras 2 takes no batch before it trains
@with_strategies
def test_repeated_fit_calls_of_few_steps_under_strategy_begin_new_epochs(
    numbers: Dataset, name: str
) -> None:
    dataset, again = (made_in("exact", numbers, num_epochs=None) for _ in range(2))
    epochs = [column(islice(again, 2)) for _ in range(6)]
    trained: list[list[int]] = []
    with strategy_called(name).scope():
        model = recording_model(trained)
    pairs = dataset.map(lambda batch: (batch.number, batch.number))
    for _ in range(3):
        model.fit(pairs, steps_per_epoch=2, shuffle=False, verbose=0)
    read = [epochs.index(trained[begin : begin + 2]) for begin in (0, 2, 4)]
    assert read == sorted(set(read))


@pytest.mark.parametrize(
    "read",
    [pytest.param(column, marks=pytest.mark.long), lambda dataset: column(mapped(dataset))],
)
def test_epoch_of_one_batch_is_no_peek_if_its_end_is_requested(numbers: Dataset, read: Any) -> None:
    shuffle = {"seed": 3, "shuffle_rows": True}
    dataset = make(numbers, 1000, shuffle=shuffle)
    torch = torch_of(numbers, batch_size=1000, shuffle=shuffle)
    assert [read(dataset) for _ in range(3)] == [torch_column(torch) for _ in range(3)]


def test_state_after_last_transformed_batch_resumes_with_the_next_epoch(
    numbers: Dataset,
) -> None:
    """The state was saved before the end was requested, so it does not record the end."""
    options = {"transform": Where(lambda number: number % 2 == 0), "specs": number_spec}
    first, second = (make(numbers, 7, **options) for _ in range(2))
    whole = column(first.take(8))
    second.load_state_dict(first.state_dict(batches=8))
    for _ in range(2):  # a peek skips the empty remainder
        assert column(islice(second, 1)) == whole[:1]
    assert column(second) == whole


@pytest.mark.filterwarnings("ignore:.*no rows:UserWarning")
def test_state_after_a_pass_without_batches_is_at_the_next_one(numbers: Dataset) -> None:
    dataset = make(numbers, transform=Where(lambda number: number > ROWS))
    assert [*dataset] == []
    state = dataset.state_dict()
    assert (state["epoch"], state["sample_in_epoch"]) == (1, 0)


def test_empty_remainder_of_a_filtered_share_is_read_as_an_empty_pass(numbers: Dataset) -> None:
    """Other ranks may have rows left in the epoch, so this rank must not begin the next one yet."""
    options = {
        "transform": Filter(lambda number: number % 2 == 0),
        "specs": number_spec,
        "shuffle": {"rank": 0, "world_size": 2},
    }
    first, second = (make(numbers, 5, **options) for _ in range(2))
    whole = column(first.take(5))
    assert len(whole) == 5
    second.load_state_dict(first.state_dict(batches=5))
    assert [column(second), column(second)] == [[], whole]


def test_forked_child_does_not_wait_for_iterator_that_its_parent_abandoned(tmp_path: Path) -> None:
    """The child's garbage collector frees the iterator, as in a worker that PyTorch forks."""
    dataset = make(write_numbers(tmp_path, 100_000, tasks=4), 10)
    iterator = iter(dataset)
    next(iterator)
    cycle: list[Any] = [iterator]
    cycle.append(cycle)
    gc.collect()
    gc.disable()
    try:
        del iterator, cycle
        child = get_context("fork").Process(target=gc.collect)
        child.start()
    finally:
        gc.enable()
    child.join(60)
    code = child.exitcode
    child.kill()
    assert code == 0
