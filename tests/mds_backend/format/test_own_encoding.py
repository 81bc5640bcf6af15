"""An encoding that one class in one file adds works everywhere, and an unknown one is named."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tests.mds_backend.format.own_uuid import UUIDText
from tests.mds_backend.loaders.loaders import torch_loader
from tests.mds_backend.maintenance.damage import rewrite

from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.datasets.dataset import Dataset, open_dataset
from mdstorm_backend.errors import (
    EncodingError,
    InvalidArgumentError,
    UnsupportedEncodingError,
    UnsupportedTypeError,
)
from mdstorm_backend.format.encodings import Encoding, parse_encoding, register, unregister
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.tf.tf_batches import make_tf_dataset
from mdstorm_backend.maintenance.inspect import head, inspect
from mdstorm_backend.maintenance.verify import verify
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.parquet import open_parquet
from mdstorm_backend.spark.dataframe_to_mds import dataframe_to_mds, plan_columns
from mdstorm_backend.spark.materialization import materialize
from mdstorm_backend.write.mds_writer import MDSWriter

UUIDS = [UUID(int=number) for number in range(5)]
TEXTS = [str(uuid) for uuid in UUIDS]
COLUMNS = {"n": "int64", "u": "own_uuid"}
TABLE = pa.table({"n": pa.array(range(5), pa.int64()), "u": TEXTS})


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    register(UUIDText)
    yield
    unregister(UUIDText)


@pytest.fixture
def unknown(known: None) -> Iterator[None]:
    """Let it be known no longer, when the test has written its data."""
    yield
    register(UUIDText)


def write_samples(directory: Path) -> None:
    with MDSWriter(columns=COLUMNS, out=str(directory)) as writer:
        for number, uuid in enumerate(UUIDS):
            writer.write({"n": number, "u": uuid})


def write_batches(directory: Path) -> None:
    with MDSWriter(columns=COLUMNS, out=str(directory)) as writer:
        for batch in TABLE.to_batches():
            writer.write_batch(batch)


def convert(directory: Path) -> None:
    file = directory.with_suffix(".parquet")
    pq.write_table(TABLE, file)
    convert_parquet(open_parquet(str(file)), str(directory), plan=COLUMNS)


WRITERS = pytest.mark.parametrize("write", [write_samples, write_batches, convert])


def check_read_everywhere(directory: Path) -> None:
    dataset = open_dataset(str(directory))
    assert dataset.schema["u"].encoding == "own_uuid"
    assert sorted(dataset[i]["u"] for i in range(5)) == UUIDS
    (batch,) = dataset.batches(10)
    assert sorted(batch["u"]) == UUIDS
    (arrow,) = dataset.batches(10, format="arrow")
    assert arrow.schema.field("u").type == pa.string()
    assert sorted(arrow.column("u").to_pylist()) == TEXTS
    (frame,) = dataset.batches(10, format="pandas")
    assert sorted(frame["u"]) == UUIDS
    (tensors,) = torch_loader(dataset, batch_size=10)
    assert sorted(tensors["u"]) == UUIDS
    assert sorted(in_tensorflow(dataset).numpy().tolist()) == [text.encode() for text in TEXTS]
    assert verify(str(directory)).is_good
    assert not verify(str(directory)).notes
    assert {row["u"] for row in head(str(directory)).to_json()} == set(TEXTS)
    column = next(c for c in inspect(str(directory)).columns if c.name == "u")
    assert {*column.encodings} == {"own_uuid"}


def in_tensorflow(dataset: Dataset) -> tf.Tensor:
    options = ReaderOptions(dataset, ExactOrder().resolved())
    (batch,) = make_tf_dataset(lambda: options, batch_size=10)
    return batch.u


@WRITERS
def test_it_is_written_and_read_everywhere(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "data")
    check_read_everywhere(tmp_path / "data")


def test_texts_that_it_could_not_decode_are_refused(tmp_path: Path) -> None:
    batch = pa.record_batch({"n": pa.array([0], pa.int64()), "u": ["nowhere"]})
    with MDSWriter(columns=COLUMNS, out=str(tmp_path)) as writer:
        with pytest.raises(EncodingError, match=r"'u'.*badly formed"):
            writer.write_batch(batch)
        writer.write({"n": 1, "u": UUIDS[1]})
    assert [sample["u"] for sample in open_dataset(str(tmp_path))[:]] == [UUIDS[1]]


@pytest.mark.usefixtures("sent_to_workers")
def test_spark_writes_it(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(list(zip(range(5), TEXTS, strict=True)), "n long, u string")
    dataframe_to_mds(frame, mds_kwargs={"out": str(tmp_path / "a"), "columns": COLUMNS})
    check_read_everywhere(tmp_path / "a")
    plan = plan_columns(frame.schema.jsonValue()["fields"], COLUMNS)
    materialize(frame, str(tmp_path / "b"), plan=plan)
    check_read_everywhere(tmp_path / "b")


@WRITERS
def test_a_damaged_value_is_found(write: Callable[[Path], None], tmp_path: Path) -> None:
    directory = tmp_path / "data"
    write(directory)
    (file,) = directory.glob("*.mds")
    rewrite(file, file.read_bytes().replace(TEXTS[2].encode(), b"x" + TEXTS[2].encode()[1:]))
    report = verify(str(directory))
    assert not report.is_good
    assert any("column 'u' holds a value that cannot be" in p.problem for p in report.problems)


def test_an_unknown_encoding_is_named(unknown: None, tmp_path: Path) -> None:
    write_samples(tmp_path)
    unregister(UUIDText)
    dataset = open_dataset(str(tmp_path))
    for read in (lambda: dataset[0], lambda: next(iter(dataset.batches(2)))):
        with pytest.raises(UnsupportedEncodingError, match=r"column 'u' .* 'own_uuid'"):
            read()
    assert dataset.sample(3, ["n"]) == {"n": np.int64(3)}
    (problem,) = verify(str(tmp_path)).problems
    assert "column 'u' in the unknown encoding 'own_uuid', which cannot" in problem.problem
    assert next(c for c in inspect(str(tmp_path)).columns if c.name == "u").encodings
    with pytest.raises(UnsupportedTypeError, match="'own_uuid'"):
        MDSWriter(columns={"u": "own_uuid"}, out=str(tmp_path / "new"))


def test_a_class_that_lacks_something_or_takes_a_name_is_refused() -> None:
    class NoName(UUIDText):
        names = ()

    class NoMethods(Encoding):
        names = ("half",)

    class Taken(UUIDText):
        names = ("str",)

    for kind, message in (
        (NoName, "lacks names"),
        (NoMethods, "lacks decode, encode"),
        (Taken, "there is an encoding 'str' already"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            register(kind)
    assert parse_encoding("str").encode("a") == b"a"
    assert parse_encoding("half").is_opaque
