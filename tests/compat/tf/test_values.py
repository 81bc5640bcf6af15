"""Types, shapes and nulls on their way from readers into TensorFlow."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.compat.readers import TYPES, ItemReader, batch_reader, items, row_reader, write_parquet

from mdstorm.errors import InvalidArgumentError, NullValueError
from mdstorm.predicates import in_lambda
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm.unischema import Unischema, UnischemaField

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


@pytest.mark.filterwarnings("ignore::UnicodeWarning")
@pytest.mark.parametrize("skip", [0, 1], ids=["blocks", "items"])
def test_of_batches(url: str, skip: int) -> None:
    reader = batch_reader(url, num_epochs=2, decimals="decimal")
    for _ in range(skip):  # what is left of a reader is taken item by item
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
def test_of_rows(url: str, skip: int) -> None:
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
        "price": (tf.string, b"1.5"),  # as Petastorm: without zeros at the end
        "day": (tf.int64, SECONDS // 86400),
        "time": (tf.int64, (SECONDS + 1) * 10**6),
        "words": (tf.string, [b"a"]),
    }


@pytest.mark.parametrize("dtype", [np.object_, np.complex64])
def test_types_without_a_counterpart(dtype: Any) -> None:
    reader = ItemReader([], batched=False)
    reader.schema = Unischema("S", [UnischemaField("c", dtype, ())])  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError, match="Unknown mapping of numpy"):
        make_petastorm_dataset(reader)


class TestNulls:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        columns = {"number": [0, None], "real": [0.5, None], "text": ["a", None]}
        return write_parquet(tmp_path / "nulls", columns)

    @pytest.mark.filterwarnings("ignore::UnicodeWarning")
    @pytest.mark.parametrize("name", ["number", "text"])
    def test_of_batches_are_refused_at_once(self, url: str, name: str) -> None:
        with pytest.raises(NullValueError, match=f"column '{name}' holds 1 null"):
            make_petastorm_dataset(batch_reader(url, schema_fields=[name]))

    def test_that_a_predicate_leaves_out_do_not_matter(self, url: str) -> None:
        given = in_lambda(["number"], lambda numbers: numbers.notnull())
        reader = batch_reader(url, schema_fields=["number"], predicate=given)
        assert first(make_petastorm_dataset(reader)) == {"number": (tf.int64, [0])}

    @pytest.mark.filterwarnings("ignore::UnicodeWarning")
    @pytest.mark.parametrize("names", [["number"], ["text"], ["number", "text"]])
    @pytest.mark.parametrize("skip", [0, 2], ids=["blocks", "items"])
    def test_of_rows_end_the_iteration(self, url: str, names: list[str], skip: int) -> None:
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
    def test_of_other_readers(self, dtype: Any, value: Any) -> None:
        reader = ItemReader(items(c=[np.array([value, None], object)]), batched=True)
        reader.schema = Unischema("S", [UnischemaField("c", dtype, ())])  # type: ignore[attr-defined]
        with pytest.raises(tf.errors.InvalidArgumentError, match="column 'c' holds 1 null"):
            list(make_petastorm_dataset(reader))


def test_arrays_of_several_lengths_in_one_batch(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "ragged", {"v": [[1], [1, 2]]})
    with pytest.raises(tf.errors.UnknownError, match="column 'v' are expected to be the same le"):
        list(make_petastorm_dataset(batch_reader(url)))
