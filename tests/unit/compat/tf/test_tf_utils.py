"""Readers as TensorFlow datasets, and as tensors in graph mode: elements, passes, values."""

import datetime
import json
import sys
from ipaddress import IPv4Address
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from tests.kit.readers import (
    TYPES,
    ItemReader,
    batch_reader,
    items,
    row_reader,
    with_either,
    write_parquet,
)

from mdstorm._tensorflow.columns import batch_spec
from mdstorm.errors import InvalidArgumentError, NullValueError, StateMismatchError
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda, in_set
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.tf_utils import (
    RANDOM_SHUFFLING_QUEUE_SIZE,
    make_namedtuple_tf_ngram,
    make_petastorm_dataset,
    tf_tensors,
)
from mdstorm.transform import TransformSpec
from mdstorm.unischema import Unischema, UnischemaField

#: Loops without Keras may resume within an epoch.
pytestmark = pytest.mark.filterwarnings("ignore:the number of batches in an epoch of this dataset")

IN_GROUPS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def taken(dataset: Any) -> list[Any]:
    """Return the column ``number`` of each element."""
    return [element.number.numpy().tolist() for element in dataset]


def other_reader(values: list[Any], *, batched: bool) -> ItemReader:
    """Return a reader of a different class with the column ``number``."""
    reader = ItemReader(items(number=values), batched=batched)
    reader.schema = Unischema("S", [UnischemaField("number", np.int64, ())])  # type: ignore[attr-defined]
    return reader


class TestElements:
    @with_either
    def test_reader_can_be_opened_in_tf_function(self, ten: str, reader: Any) -> None:
        def numbers(_: Any) -> Any:
            opened = make_petastorm_dataset(reader(ten, num_epochs=2))
            return opened.map(lambda element: tf.reshape(element.number, [-1])).unbatch()

        dataset = tf.data.Dataset.range(2).interleave(numbers, cycle_length=1)
        assert [int(number) for number in dataset] == [*range(10)] * 4

    @pytest.mark.filterwarnings("ignore:.*reading only Petastorm datasets")
    @pytest.mark.parametrize("make", [make_batch_reader, make_reader])
    def test_autograph_does_not_convert_what_opens_a_reader(self, ten: str, make: Any) -> None:
        """Converting it takes seconds, and warns of syntax that AutoGraph does not know."""
        converted = set()

        def noted(frame: Any, *_: Any) -> None:
            if "__autograph_generated_file" in frame.f_code.co_filename:
                converted.add(frame.f_code.co_name)

        @tf.function  # type: ignore[untyped-decorator]
        def opened() -> Any:
            reader = make(ten, predicate=in_set([1], "number"))
            return make_petastorm_dataset(reader).cardinality()

        sys.setprofile(noted)
        try:
            opened()
        finally:
            sys.setprofile(None)
        assert {name for name in converted if name.startswith("tf__")} == {"tf__opened"}

    def test_sharded_dataset_is_not_sharded_again_by_tensorflow(self, ten: str) -> None:
        dataset = make_petastorm_dataset(batch_reader(ten, cur_shard=1, shard_count=2))
        assert taken(dataset) == [[5, 6, 7], [8, 9]]
        policy = dataset.options().experimental_distribute.auto_shard_policy
        assert policy == tf.data.experimental.AutoShardPolicy.OFF


class TestBatching:
    """Batches are slices of blocks and equal the batches that TensorFlow makes from single rows."""

    @pytest.mark.parametrize("drop", [False, True])
    def test_unbatched_and_rebatched_rows_equal_tensorflow_batches(
        self, thousand: str, drop: bool
    ) -> None:
        dataset = make_petastorm_dataset(batch_reader(thousand)).unbatch()
        found = taken(dataset.batch(64, drop_remainder=drop))
        rows = tf.data.Dataset.range(1000).batch(64, drop)
        assert found == [batch.numpy().tolist() for batch in rows]

    @with_either
    def test_batch_and_shuffle_keep_rows_and_values(self, ten: str, reader: Any) -> None:
        dataset = make_petastorm_dataset(reader(ten, num_epochs=2))
        rows = dataset.unbatch() if reader is batch_reader else dataset
        assert taken(rows) == [*range(10)] * 2
        assert taken(rows.batch(8)) == [[*range(8)], [8, 9, *range(6)], [6, 7, 8, 9]]
        assert taken(rows.shuffle(5).batch(20)) != [[*range(10)] * 2]
        assert taken(rows.batch(8, num_parallel_calls=2)) == taken(rows.batch(8))

    def test_known_batch_size_is_in_the_element_spec(self, ten: str) -> None:
        dataset = make_petastorm_dataset(row_reader(ten)).batch(4, drop_remainder=True)
        assert dataset.element_spec.number.shape == (4,)

    def test_dataset_blocks_span_several_row_groups(self, thousand: str) -> None:
        dataset = make_petastorm_dataset(batch_reader(thousand)).unbatch()
        (block,) = dataset._parts.blocks()
        assert len(block.number) == 1000

    def test_arrays_of_different_lengths_are_ragged(self, tmp_path: Path) -> None:
        url = write_parquet(tmp_path / "ragged", {"number": [[], [], [1], [2], [1, 2]]}, 2)
        assert taken(make_petastorm_dataset(row_reader(url))) == [[], [], [1], [2], [1, 2]]
        groups = make_petastorm_dataset(batch_reader(url))
        assert taken(groups) == [[[], []], [[1], [2]], [[1, 2]]]
        assert taken(groups.unbatch()) == [[], [], [1], [2], [1, 2]]
        assert taken(groups.unbatch().batch(2)) == [[[], []], [[1], [2]], [[1, 2]]]


class TestPasses:
    @with_either
    def test_dataset_can_be_iterated_again_after_a_break(self, ten: str, reader: Any) -> None:
        dataset = make_petastorm_dataset(reader(ten))
        for _ in dataset:
            break
        first, second = taken(dataset), taken(dataset)
        assert first == second
        assert np.concatenate([np.atleast_1d(part) for part in first]).tolist() == list(range(10))

    def test_dataset_over_a_used_reader_yields_its_remaining_rows_first(self, ten: str) -> None:
        reader = batch_reader(ten)
        next(reader)
        dataset = make_petastorm_dataset(reader)
        assert taken(dataset) == IN_GROUPS[1:]
        assert taken(dataset) == IN_GROUPS

    def test_reader_of_different_class_is_reset_at_its_end(self) -> None:
        batches = other_reader([np.arange(3), np.arange(2)], batched=True)
        rows = other_reader(list(range(3)), batched=False)
        for reader, expected in ((batches, [[0, 1, 2], [0, 1]]), (rows, [0, 1, 2])):
            dataset = make_petastorm_dataset(reader)
            assert taken(dataset) == taken(dataset) == expected


class TestStates:
    @pytest.fixture
    def numbers(self, tmp_path: Path) -> str:
        """The numbers 0 to 199 in row groups of twenty."""
        return write_parquet(tmp_path / "numbers", {"number": range(200)}, 20)

    @pytest.mark.matrix
    @pytest.mark.parametrize("done", [0, 50, 199, 200])
    @with_either
    def test_state_after_any_number_of_rows_resumes_with_next_row(
        self, numbers: str, reader: Any, done: int
    ) -> None:
        def make() -> Any:
            dataset = make_petastorm_dataset(reader(numbers, shuffle_rows=True, seed=3))
            return dataset.unbatch() if reader is batch_reader else dataset

        whole = taken(make())
        first, second = make(), make()
        assert taken(islice(first, done)) == whole[:done]
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        rest = taken(second)
        if done < 200:
            assert rest == whole[done:]
        else:
            assert sorted(rest) == list(range(200))

    @with_either
    def test_state_before_first_block_equals_the_loaded_state(
        self, numbers: str, reader: Any
    ) -> None:
        def make() -> Any:
            dataset = make_petastorm_dataset(reader(numbers, shuffle_rows=True, seed=3))
            return dataset.unbatch() if reader is batch_reader else dataset

        first, second, third = make(), make(), make()
        whole = taken(make())
        list(islice(first, 50))
        state = first.state_dict()
        second.load_state_dict(state)
        assert second.state_dict() == state
        third.load_state_dict(second.state_dict())
        assert taken(third) == whole[50:]
        assert third.state_dict() != state

    def test_set_epoch_after_load_begins_a_whole_epoch(self, numbers: str) -> None:
        readers = [row_reader(numbers, shuffle_rows=True, seed=3) for _ in range(2)]
        first, second = map(make_petastorm_dataset, readers)
        list(islice(first, 50))
        second.load_state_dict(first.state_dict())
        readers[1].set_epoch(1)
        assert sorted(taken(second)) == list(range(200))

    def test_batches_are_left_out_after_a_state(self, numbers: str) -> None:
        def make() -> Any:
            return make_petastorm_dataset(batch_reader(numbers, seed=3))

        first, second, whole = make(), make(), taken(make())
        assert taken(islice(first, 2)) == whole[:2]
        second.load_state_dict(first.state_dict(), skip_batches=3)
        assert taken(second) == whole[5:]
        with pytest.raises(InvalidArgumentError, match="skip_batches=99 is beyond the end"):
            second.load_state_dict(first.state_dict(), skip_batches=99)

    def test_leaving_out_batches_of_a_dataset_of_rows_raises_error(self, ten: str) -> None:
        dataset = make_petastorm_dataset(row_reader(ten, seed=3))
        with pytest.raises(InvalidArgumentError, match=r"a dataset of rows.*dataset.skip\(n\)"):
            dataset.load_state_dict(dataset.state_dict(), skip_batches=1)

    def test_state_from_later_iteration_resumes_in_its_epoch(self, numbers: str) -> None:
        def make() -> Any:
            return make_petastorm_dataset(row_reader(numbers, shuffle_rows=True, seed=3))

        first, second, expected = make(), make(), make()
        whole = [taken(expected) for _ in range(3)]
        taken(first)
        assert taken(islice(first, 50)) == whole[1][:50]
        second.load_state_dict(first.state_dict())
        assert taken(islice(second, 1)) == whole[1][50:51]  # a peek
        assert taken(islice(second, 20)) == whole[1][50:70]
        assert taken(second) == whole[2]

    def test_loading_current_state_within_block_resumes_with_next_row(self, numbers: str) -> None:
        def make() -> Any:
            return make_petastorm_dataset(row_reader(numbers, shuffle_rows=True, seed=3))

        first, expected = make(), make()
        whole = [taken(expected) for _ in range(2)]
        list(islice(first, 50))
        first.load_state_dict(first.state_dict())
        assert taken(islice(first, 20)) == whole[0][50:70]
        assert taken(first) == whole[1]

    def test_state_of_derived_dataset_requires_count_of_items(self, numbers: str) -> None:
        first, second = (make_petastorm_dataset(row_reader(numbers)) for _ in range(2))
        list(islice(first.batch(64), 3))
        with pytest.raises(StateMismatchError, match=r"TensorFlow took them .*state_dict.items"):
            first.state_dict()
        with pytest.raises(StateMismatchError, match="no state after 201 items"):
            first.state_dict(items=201)
        second.load_state_dict(first.state_dict(items=192))
        assert taken(second) == list(range(192, 200))

    def test_state_within_block_with_different_world_size_raises_error(self, numbers: str) -> None:
        first = make_petastorm_dataset(row_reader(numbers))
        list(islice(first, 3))
        second = make_petastorm_dataset(row_reader(numbers, cur_shard=0, shard_count=2))
        with pytest.raises(StateMismatchError, match="there are 2 ranks here"):
            second.load_state_dict(first.state_dict())

    @with_either
    def test_state_of_reader_under_dataset_raises_error_that_names_dataset(
        self, ten: str, reader: Any
    ) -> None:
        opened = reader(ten)
        next(iter(make_petastorm_dataset(opened)))
        with pytest.raises(StateMismatchError, match="dataset of make_petastorm_dataset reads"):
            opened.state_dict()

    def test_state_of_dataset_over_used_reader_raises_error_that_names_reader(
        self, ten: str
    ) -> None:
        reader = batch_reader(ten)
        next(reader)
        with pytest.raises(StateMismatchError, match=r"call the reader's own state_dict\(\)"):
            make_petastorm_dataset(reader).state_dict()


def test_n_grams_are_dicts_of_namedtuples(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "sequence", {"time": range(4), "value": np.arange(4) / 2})
    ngram = NGram({-1: ["time"], 1: ["value"]}, 1, "time")
    dataset = make_petastorm_dataset(row_reader(url, schema_fields=ngram))
    for _ in range(2):
        first, second = dataset
        assert list(first) == [-1, 0, 1]
        assert (int(first[-1].time), float(first[1].value)) == (0, 1.0)
        assert (int(second[-1].time), float(second[1].value)) == (1, 1.5)
    next(iter(dataset))
    assert len(list(dataset)) == 2


def test_pass_over_n_grams_after_an_error_starts_at_the_beginning(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "sequence", {"time": range(4)})
    ngram = NGram({0: ["time"]}, 1, "time")
    dataset = make_petastorm_dataset(row_reader(url, schema_fields=ngram))
    (file,) = (tmp_path / "sequence").glob("*.parquet")
    moved = file.rename(tmp_path / "moved")
    with pytest.raises(tf.errors.OpError):
        list(dataset)
    moved.rename(file)
    assert [int(item[0].time) for item in dataset] == [0, 1, 2, 3]


v1 = tf.compat.v1


def test_tf_tensors_with_shuffling_queue_return_each_row_once(ten: str) -> None:
    with row_reader(ten) as reader, tf.Graph().as_default(), v1.Session() as session:
        row = tf_tensors(reader, shuffling_queue_capacity=10, min_after_dequeue=5)
        assert session.graph.get_operation_by_name(RANDOM_SHUFFLING_QUEUE_SIZE)
        coordinator = tf.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        found = [int(session.run(row).number) for _ in range(10)]
        coordinator.request_stop()
        coordinator.join(threads)
    assert sorted(found) == list(range(10))


def test_tf_tensors_of_unsigned_scalars_are_wider_signed_integers(tmp_path: Path) -> None:
    columns = {"small": np.array([2**16 - 1], np.uint16), "large": np.array([2**32 - 1], np.uint32)}
    url = write_parquet(tmp_path / "unsigned", columns)
    with row_reader(url) as reader, tf.Graph().as_default(), v1.Session() as session:
        found = session.run(tf_tensors(reader))
    assert [(v.dtype, int(v)) for v in found] == [(np.int32, 2**16 - 1), (np.int64, 2**32 - 1)]


class TestNGrams:
    ngram = NGram({0: ["time"], 2: ["time", "value"]}, 1, "time")

    def test_n_gram_tensors_are_dicts_of_namedtuples(self, tmp_path: Path) -> None:
        url = write_parquet(tmp_path / "sequence", {"time": range(4), "value": np.arange(4) / 2})
        with (
            row_reader(url, schema_fields=self.ngram) as reader,
            tf.Graph().as_default(),
            v1.Session() as session,
        ):
            tensors = tf_tensors(reader)
            assert list(tensors) == [0, 1, 2]
            first = session.run({offset: row for offset, row in tensors.items() if row})
        assert (int(first[0].time), int(first[2].time), float(first[2].value)) == (0, 2, 1.0)

    def test_n_grams_are_built_from_positional_and_named_values(self) -> None:
        fields = [UnischemaField("time", np.int64, ()), UnischemaField("value", np.float64, ())]
        schema = Unischema("S", fields)
        ngram = NGram({0: [fields[0]], 1: fields}, 1, fields[0])
        values: dict[str, Any] = {"0": {"time": 1}, "1": {"time": 2, "value": 3.0}}
        for arguments, keywords in (((), values), ((1, 2, 3.0), {})):
            result = make_namedtuple_tf_ngram(schema, ngram, *arguments, **keywords)
            assert {f"{offset}": row._asdict() for offset, row in result.items()} == values


SECONDS = 1577836800  # 2020-01-01
DAY = datetime.date(2020, 1, 1)
TIME = datetime.datetime(2020, 1, 1, 0, 0, 1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    columns = {
        **TYPES,
        "text": ["a", "ü\0"],
        "raw": [b"\0", b"x\0"],
        "day": [DAY, DAY],
        "time": [TIME, TIME],
        "words": [["a"], ["b"]],
    }
    return write_parquet(tmp_path / "types", columns)


def first(dataset: Any) -> dict[str, Any]:
    (element,) = dataset.take(1)
    return {
        name: (value.dtype, np.asarray(value).tolist()) for name, value in element._asdict().items()
    }


def by_dataset(reader: Any) -> dict[str, Any]:
    return first(make_petastorm_dataset(reader))


def by_graph(reader: Any) -> dict[str, Any]:
    """Return the type and value of each of the first tensors in graph mode."""
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = tf_tensors(reader)
        found = session.run(tensors)
    return {
        name: (tensor.dtype, np.asarray(value).tolist())
        for (name, tensor), value in zip(tensors._asdict().items(), found, strict=True)
    }


@pytest.mark.filterwarnings("ignore::UnicodeWarning")
@pytest.mark.parametrize("skip", [0, 1], ids=["blocks", "items"])
def test_batch_tensors_have_petastorm_types(url: str, skip: int) -> None:
    reader = batch_reader(url, num_epochs=2, decimals="decimal")
    for _ in range(skip):  # a used reader's remaining items are read one by one
        next(reader)
    assert first(make_petastorm_dataset(reader)) == {
        "flag": (tf.bool, [True, False]),
        "u16": (tf.int32, [1, 65535]),
        "u32": (tf.int64, [1, 2**32 - 1]),
        "i8": (tf.int8, [-1, 1]),
        "f32": (tf.float32, [0.5, 1.5]),
        "array": (tf.float32, [[1.0, 2.0], [3.0, 4.0]]),
        "text": (tf.string, [b"a", "ü\0".encode()]),
        "raw": (tf.string, [b"\0", b"x\0"]),
        "price": (tf.string, [b"1.50", b"2.25"]),
        "day": (tf.int64, [SECONDS * 10**9] * 2),
        "time": (tf.int64, [(SECONDS + 1) * 10**9] * 2),
        "words": (tf.string, [[b"a"], [b"b"]]),
    }


@pytest.mark.filterwarnings("ignore::UnicodeWarning")
@pytest.mark.parametrize("skip", [0, 2], ids=["blocks", "items"])
def test_row_tensors_have_petastorm_types(url: str, skip: int) -> None:
    reader = row_reader(url, num_epochs=2, decimals="decimal")
    for _ in range(skip):
        next(reader)
    assert first(make_petastorm_dataset(reader)) == {
        "flag": (tf.bool, True),
        "u16": (tf.int32, 1),
        "u32": (tf.int64, 1),
        "i8": (tf.int8, -1),
        "f32": (tf.float32, 0.5),
        "array": (tf.float32, [1.0, 2.0]),
        "text": (tf.string, b"a"),
        "raw": (tf.string, b"\0"),
        "price": (tf.string, b"1.5"),  # as in Petastorm, without trailing zeros
        "day": (tf.int64, SECONDS // 86400),
        "time": (tf.int64, (SECONDS + 1) * 10**6),
        "words": (tf.string, [b"a"]),
    }


DAYS = ["2020-01-01", "2262-01-01"]
#: For each declared type, the type in TensorFlow, the values, and what TensorFlow returns if they
#: differ. First the types for which Petastorm has a mapping, then those that only mdstorm reads.
DECLARED: dict[Any, tuple[Any, list[Any], list[Any] | None]] = {
    np.bool_: (tf.bool, [False, True], None),
    np.int8: (tf.int8, [-(2**7), 2**7 - 1], None),
    np.int16: (tf.int16, [-(2**15), 2**15 - 1], None),
    np.int32: (tf.int32, [-(2**31), 2**31 - 1], None),
    np.int64: (tf.int64, [-(2**63), 2**63 - 1], None),
    np.uint8: (tf.uint8, [0, 2**8 - 1], None),
    np.uint16: (tf.int32, [0, 2**16 - 1], None),
    np.uint32: (tf.int64, [0, 2**32 - 1], None),
    np.float32: (tf.float32, [-0.5, 2.0**127], None),
    np.float64: (tf.float64, [-0.1, 1e300], None),
    np.str_: (tf.string, ["a", "ü"], [b"a", "ü".encode()]),
    np.bytes_: (tf.string, [b"a", b"\xff"], None),
    np.datetime64: (tf.int64, np.array(DAYS, "datetime64[ns]").tolist(), None),
    np.uint64: (tf.uint64, [0, 2**64 - 1], None),
    np.float16: (tf.float16, [-0.5, 65504.0], None),
    np.longlong: (tf.int64, [-(2**63), 2**63 - 1], None),
    np.ulonglong: (tf.uint64, [0, 2**64 - 1], None),
}
#: All types of NumPy itself; of durations, transforms of batches make microseconds.
ALL = {kind for kind in np.sctypeDict.values() if kind.__module__ == "numpy"} - {np.timedelta64}


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::UnicodeWarning")
@pytest.mark.parametrize("shape", [(), (2,)], ids=["scalars", "arrays"])
@pytest.mark.parametrize("tensors", [by_dataset, by_graph], ids=["dataset", "graph"])
@with_either
def test_declared_types_have_petastorm_tensors(
    reader: Any, tensors: Any, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Columns of each declared type, which a transform returns."""
    names = {f"c{number}": kind for number, kind in enumerate(DECLARED)}

    def values(kind: Any, row: int) -> Any:
        given = DECLARED[kind][1]
        dtype = "datetime64[ns]" if kind is np.datetime64 else kind
        array = np.array(given if shape else given[row], dtype)
        return array if shape else array[()]

    def edit(item: Any) -> Any:
        if isinstance(item, dict):
            return {name: values(kind, item["row"]) for name, kind in names.items()}
        columns = {n: [values(kind, row) for row in item["row"]] for n, kind in names.items()}
        return pd.DataFrame(columns)

    edited = [(name, kind, shape, False) for name, kind in names.items()]
    spec = TransformSpec(edit, edit_fields=edited, removed_fields=["row"])
    url = write_parquet(tmp_path / "rows", {"row": [0, 1]})
    found = tensors(reader(url, transform_spec=spec))
    for name, kind in names.items():
        dtype, given, expected = DECLARED[kind]
        wanted = given if expected is None else expected
        if kind is np.datetime64 and reader is row_reader and not shape:
            wanted = [nanoseconds // 1000 for nanoseconds in wanted]  # as Petastorm's rows
        if reader is row_reader and not shape:
            wanted = wanted[0]
        elif reader is batch_reader and shape:
            wanted = [wanted, wanted]
        assert (kind, *found[name]) == (kind, dtype, wanted)


@pytest.mark.parametrize("dtype", sorted(ALL - {*DECLARED}, key=repr))
def test_types_with_no_tensorflow_equivalent_raise_error(dtype: Any) -> None:
    for make in (make_petastorm_dataset, tf_tensors):
        reader = ItemReader([], batched=False)
        reader.schema = Unischema("S", [UnischemaField("c", dtype, ())])  # type: ignore[attr-defined]
        with tf.Graph().as_default(), pytest.raises(InvalidArgumentError, match="Unknown mapping"):
            make(reader)


class TestNulls:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        columns = {"number": [0, None], "real": [0.5, None], "text": ["a", None]}
        return write_parquet(tmp_path / "nulls", columns)

    @pytest.mark.filterwarnings("ignore::UnicodeWarning")
    @pytest.mark.parametrize("name", ["number", "text"])
    def test_nulls_in_batches_raise_error_immediately(self, url: str, name: str) -> None:
        with pytest.raises(NullValueError, match=f"column '{name}' holds 1 null"):
            make_petastorm_dataset(batch_reader(url, schema_fields=[name]))

    def test_nulls_in_rows_that_a_predicate_drops_are_ignored(self, url: str) -> None:
        given = in_lambda(["number"], lambda numbers: numbers.notnull())
        reader = batch_reader(url, schema_fields=["number"], predicate=given)
        assert first(make_petastorm_dataset(reader)) == {"number": (tf.int64, [0])}

    @pytest.mark.filterwarnings("ignore::UnicodeWarning")
    @pytest.mark.parametrize("names", [["number"], ["text"], ["number", "text"]])
    @pytest.mark.parametrize("skip", [0, 2], ids=["blocks", "items"])
    def test_nulls_from_row_reader_raise_error_that_names_columns(
        self, url: str, names: list[str], skip: int
    ) -> None:
        reader = row_reader(url, schema_fields=names, num_epochs=2)
        for _ in range(skip):
            next(reader)
        expected = "Encountered " + ", ".join(f'"{name}"=None' for name in names)
        with pytest.raises(tf.errors.UnknownError, match=expected):
            list(make_petastorm_dataset(reader))

    @pytest.mark.filterwarnings("ignore::UnicodeWarning")
    @pytest.mark.parametrize(
        ("dtype", "value"), [(np.bool_, True), (np.str_, "a"), (np.datetime64, DAY)]
    )
    def test_nulls_from_other_readers_raise_error(self, dtype: Any, value: Any) -> None:
        reader = ItemReader(items(c=[np.array([value, None], object)]), batched=True)
        reader.schema = Unischema("S", [UnischemaField("c", dtype, ())])  # type: ignore[attr-defined]
        with pytest.raises(tf.errors.InvalidArgumentError, match="column 'c' holds 1 null"):
            list(make_petastorm_dataset(reader))

    def test_objects_without_tensorflow_type_raise_error_naming_the_column(self) -> None:
        reader = ItemReader(items(c=[np.array([IPv4Address(1)], object)]), batched=True)
        reader.schema = Unischema("S", [UnischemaField("c", np.bytes_, ())])  # type: ignore[attr-defined]
        with pytest.raises(tf.errors.OpError, match="column 'c' contains objects of type IPv4Addr"):
            list(make_petastorm_dataset(reader))


def test_arrays_of_different_lengths_in_same_batch_raise_error(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "ragged", {"v": [[1], [1, 2]]})
    with pytest.raises(tf.errors.UnknownError, match="column 'v' are expected to be the same le"):
        list(make_petastorm_dataset(batch_reader(url)))


@pytest.mark.parametrize(
    ("shape", "uniform", "dimensions"),
    [((None,), (), 1), ((None, 3), (3,), 1), ((3, None), (), 2), ((None, 2, None, 4), (4,), 3)],
    ids=str,
)
def test_batches_are_ragged_up_to_the_last_dimension_that_varies(
    shape: tuple[int | None, ...], uniform: tuple[int, ...], dimensions: int
) -> None:
    spec = batch_spec("v", np.float32, shape)
    assert (spec.ragged, spec.shape, spec.dimensions) == (True, uniform, dimensions)
