"""What people get wrong in their first hours: each message has the remedy."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mdstorm
from mdstorm import TransformSpec, make_batch_reader, make_reader
from mdstorm.predicates import in_lambda, in_pseudorandom_split
from mdstorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm.weighted_sampling_reader import WeightedSamplingReader
from mdstorm_backend import (
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
    dataframe_to_mds,
    materialize,
    open_dataset,
)

Mistake: TypeAlias = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The URLs of one table in Parquet and in MDS."""
    parquet, mds = (tmp_path_factory.mktemp(name) for name in ("parquet", "mds"))
    table = pa.table({"id": range(8), "x": [0.5] * 8, "s": ["text"] * 8})
    pq.write_table(table, parquet / "0.parquet")
    mdstorm.convert(str(parquet), str(mds), progress=False)
    return parquet.as_uri(), mds.as_uri()


def torch_batch(mds: str, **arguments: Any) -> Any:
    return next(iter(converter(mds).make_torch_dataloader(num_epochs=1, **arguments)))


def tf_batch(mds: str, **arguments: Any) -> Any:
    return next(iter(converter(mds).make_tf_dataset(num_epochs=1, **arguments)))


def converter(mds: str) -> SparkDatasetConverter:
    (shard,) = Path(mds.removeprefix("file://")).glob("*.mds")
    return SparkDatasetConverter(mds, [shard.as_uri()], 8)


def batch_of_a_stopped_reader(parquet: str) -> Any:
    with make_batch_reader(parquet) as reader:
        pass
    return next(reader)


#: What is done, of the URLs of Parquet and MDS; the builtin that is raised; words of the message.
MISTAKES: list[tuple[Mistake, type[Exception], str]] = [
    # arguments of loaders
    (lambda p, m: torch_batch(m, batch_size="32"), ValueError, "integer or None, found '32'"),
    (lambda p, m: torch_batch(m, batchsize=32), TypeError, "did you mean batch_size"),
    (lambda p, m: torch_batch(m, epochs=3), TypeError, "did you mean num_epochs"),
    (lambda p, m: torch_batch(m, shuffle=True), TypeError, "use shuffle_rows"),
    (lambda p, m: torch_batch(m, num_workers=2), TypeError, "use workers_count"),
    (lambda p, m: torch_batch(m, drop_last=True), TypeError, "skip it as you iterate"),
    (lambda p, m: torch_batch(m, workers_count=-1), ValueError, "at least 1 or None"),
    (lambda p, m: torch_batch(m, shuffling_queue_capacity="all"), ValueError, "integer or None"),
    (lambda p, m: torch_batch(m, seed="a"), ValueError, "integer of at least 0 or None"),
    (lambda p, m: torch_batch(m, order="random"), ValueError, "Use one of ('exact', 'elastic')"),
    (lambda p, m: torch_batch(m, decimals="float"), ValueError, "one of 'float64', 'float32'"),
    (lambda p, m: torch_batch(m, reader_pool_type="threads"), ValueError, "one of ('thread', "),
    (lambda p, m: torch_batch(m, device="gpu"), TypeError, "such as 'cuda'"),
    (lambda p, m: torch_batch(m, batch_map=3), TypeError, "must be a function"),
    (lambda p, m: tf_batch(m, batch_size="32"), ValueError, "positive number of rows"),
    (lambda p, m: tf_batch(m, prefetch="auto"), ValueError, "prefetch must be an integer"),
    (lambda p, m: tf_batch(m, prefetch=-3), ValueError, "of at least -1 or None"),
    # columns
    (lambda p, m: torch_batch(m, features="nope"), ValueError, "columns ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, labels="X"), ValueError, "columns ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, labels=1), TypeError, "name of a column or a list of names"),
    (lambda p, m: tf_batch(m, labels="X"), ValueError, "columns ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, schema_fields="id"), ValueError, "put it in a list"),
    (lambda p, m: torch_batch(m, schema_fields=["nope"]), ValueError, "are ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, fill_nulls={"nope": 0}), TypeError, "read are ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, fill_nulls=["x"]), TypeError, "must be a dict"),
    (lambda p, m: torch_batch(m, null_masks="x"), TypeError, "must be a list of columns"),
    (lambda p, m: mdstorm.convert(p, f"{m}2", columns="id"), TypeError, "put it in a list"),
    (lambda p, m: mdstorm.convert(p, f"{m}2", columns=["ID"]), KeyError, "among ['id', 'x', 's']"),
    (lambda p, m: next(open_dataset(m).batches(1, columns=["no"])), TypeError, "choose among"),
    # worlds
    (lambda p, m: torch_batch(m, cur_shard=0), ValueError, "both specified"),
    (lambda p, m: torch_batch(m, cur_shard=2, shard_count=2), ValueError, "< shard_count"),
    (lambda p, m: torch_batch(m, cur_shard="0", shard_count=2), ValueError, "must be ints"),
    # functions, predicates, filters
    (lambda p, m: torch_batch(m, transform_spec=print), TypeError, "TransformSpec(function)"),
    (lambda p, m: torch_batch(m, transform_spec=TransformSpec(len)), ValueError, "return the Data"),
    (lambda p, m: torch_batch(m, predicate=bool), ValueError, "wrap a function in mdstorm.pred"),
    (lambda p, m: torch_batch(m, predicate=in_lambda(["no"], bool)), ValueError, "(id, x, s)"),
    (lambda p, m: torch_batch(m, filters=[("no", "=", 1)]), ValueError, "among ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, filters="id > 3"), ValueError, "(column, operator, value)"),
    (lambda p, m: torch_batch(m, filters=[("id", "=", "a")]), ValueError, "the column's type"),
    (lambda p, m: in_pseudorandom_split([0.5, 0.5], 2, "id"), ValueError, "2 for 2 fractions"),
    # places
    (lambda p, m: make_reader("data"), ValueError, 'prepend "file://"'),
    (lambda p, m: make_batch_reader(None), ValueError, "must be a string, found None"),  # type: ignore[arg-type]
    (lambda p, m: make_batch_reader([]), ValueError, "must be non-empty"),
    (lambda p, m: make_batch_reader("foo://x/y"), ValueError, "another scheme"),
    (lambda p, m: make_batch_reader("file:///nope"), OSError, "check the URL"),
    (lambda p, m: make_batch_reader(p, cache_type="disk"), ValueError, "'local-disk'"),
    (lambda p, m: open_dataset(p), FileNotFoundError, "mdstorm convert"),
    (lambda p, m: StreamingDataset(local="/nope"), FileNotFoundError, "its location as remote"),
    (lambda p, m: mdstorm.convert(p, m), FileExistsError, "overwrite=True"),
    (lambda p, m: MDSWriter(out=m, columns={"a": "int"}), FileExistsError, "exist_ok=True"),
    # one thing in the place of another
    (lambda p, m: make_spark_converter(pd.DataFrame()), TypeError, "spark.createDataFrame"),
    (lambda p, m: materialize(pd.DataFrame(), "out"), TypeError, "spark.createDataFrame"),
    (lambda p, m: dataframe_to_mds(pd.DataFrame()), TypeError, "MDSWriter.write_batch"),
    (lambda p, m: DataLoader(p), TypeError, "make_batch_reader(url)"),
    (lambda p, m: DataLoader(converter(m)), TypeError, "make_torch_dataloader"),
    (lambda p, m: BatchedDataLoader(p), TypeError, "make_batch_reader(url)"),
    (lambda p, m: InMemBatchedDataLoader(p), TypeError, "make_batch_reader(url)"),
    (lambda p, m: make_petastorm_dataset(converter(m)), TypeError, "make_tf_dataset"),
    (lambda p, m: WeightedSamplingReader([p, p], [0.5, 0.5]), TypeError, "make_batch_reader(url)"),
    (lambda p, m: StreamingDataLoader("mds"), TypeError, "open_dataset"),
    (lambda p, m: StreamingDataLoader(converter(m)), TypeError, "make_torch_dataloader"),
    (lambda p, m: open_dataset(m)["x"], ValueError, "use an integer, a slice"),
    (lambda p, m: MDSWriter(out="out", columns={"a": "integer"}), TypeError, "int64"),
    # too early, too late
    (lambda p, m: batch_of_a_stopped_reader(p), RuntimeError, "inside of the with statement"),
    (lambda p, m: len(converter(m).make_torch_dataloader()), TypeError, "num_epochs=None never"),
    (
        lambda p, m: converter(m).make_torch_dataloader().load_state_dict(None),  # type: ignore[arg-type]
        ValueError,
        "the dict that state_dict() returned",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "builtin", "words"), MISTAKES, ids=[words for *_, words in MISTAKES]
)
def test_a_mistake_is_told_with_its_remedy(
    mistake: Mistake, builtin: type[Exception], words: str, places: tuple[str, str]
) -> None:
    with pytest.raises(builtin, match=re.escape(words)) as raised:
        mistake(*places)
    assert len(str(raised.value)) < 1200
