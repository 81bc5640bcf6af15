"""The messages for common mistakes with a converter and its loaders name the remedy."""

import copy
import datetime
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kit.mistakes import Row, mistakes_test
from torch.utils.data import DataLoader

from mdstorm import TransformSpec, make_batch_reader
from mdstorm.predicates import in_lambda, in_pseudorandom_split
from mdstorm.pytorch import BatchedDataLoader, InMemBatchedDataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset

convert: Any = make_spark_converter
by_hand: Any = SparkDatasetConverter
order: Any = ExactOrder


def converter(mds: str) -> SparkDatasetConverter:
    return SparkDatasetConverter(mds, make_spark_converter(mds).file_urls, 8)


def torch_batch(mds: str, **arguments: Any) -> Any:
    return next(iter(converter(mds).make_torch_dataloader(num_epochs=1, **arguments)))


def tf_batch(mds: str, **arguments: Any) -> Any:
    return next(iter(converter(mds).make_tf_dataset(num_epochs=1, **arguments)))


def loader(mds: str, **arguments: Any) -> Any:
    return converter(mds).make_torch_dataloader(**arguments)


def resumed(mds: str, other: Any) -> None:
    loader(mds).load_state_dict(other.state_dict())


def transformed(mds: str, function: Any, *edited: Any) -> Any:
    """Return a batch produced by a transform function."""
    return torch_batch(mds, transform_spec=TransformSpec(function, edit_fields=edited))


def whole(mds: str) -> dict[str, Any]:
    """Return a checkpoint that contains the state of a loader."""
    return {"model": {}, "loader": loader(mds).state_dict()}


def deleted(mds: str) -> SparkDatasetConverter:
    shutil.copytree(mds.removeprefix("file://"), f"{mds}-copy".removeprefix("file://"))
    found = SparkDatasetConverter(f"{mds}-copy", [], 8)
    found.delete()
    return found


def torch_of_copy(mds: str) -> Any:
    """Return a batch from a copy that was removed when the process that created it ended."""
    gone = SparkDatasetConverter(f"{mds}/20250101000000-appid-local-1", [f"{mds}/a.mds"], 8)
    return next(iter(copy.copy(gone).make_torch_dataloader()))


def table_of_text(mds: str) -> str:
    Path(f"{mds}.csv".removeprefix("file://")).write_text("id,x\n1,2\n")
    return f"{mds}.csv"


def cached(location: str, limit: Any = 1 << 30, row: Any = 100) -> dict[str, Any]:
    sizes = {"cache_size_limit": limit, "cache_row_size_estimate": row}
    return {"cache_type": "local-disk", "cache_location": location.removeprefix("file://"), **sizes}


def streamed(mds: str) -> Any:
    return StreamingDataLoader(StreamingDataset(local=mds.removeprefix("file://")), batch_size=2)


def lazy(mds: str, **arguments: Any) -> StreamingDataset:
    """Return a dataset that is opened on first use."""
    return StreamingDataset(local=mds.removeprefix("file://"), order=ExactOrder(), **arguments)


def files_of_parquet(parquet: str, **arguments: Any) -> Any:
    """Return a batch of two files."""
    files = SparkDatasetConverter(parquet, [f"{parquet}/0.parquet"] * 2, 16)
    return next(iter(files.make_torch_dataloader(**arguments)))


def named(mds: str, path: str | None, content: bytes = b"", **arguments: Any) -> Any:
    """Return a batch of the file that a row names; `content` is in the file ``there``."""
    data = Path(mkdtemp(dir=Path(mds.removeprefix("file://")).parent))
    with MDSWriter(out=str(data), columns={"path": "str"}) as writer:
        writer.write_batch(pa.table({"path": pa.array([path], pa.string())}))
    (data / "there").write_bytes(content)
    dataset = StreamingDataset(local=str(data), batch_size=1, files={"f": "path"}, **arguments)
    return next(iter(StreamingDataLoader(dataset, batch_size=1)))


def of_times(parquet: str, unit: str, value: str) -> Any:
    """Return a batch of the rows after a time."""
    times = pa.array([datetime.datetime(2024, 1, 1)] * 2)
    array = times.cast(pa.date32() if unit == "day" else pa.timestamp(unit))
    pq.write_table(pa.table({"t": array}), f"{parquet}-{unit}.parquet".removeprefix("file://"))
    found = make_spark_converter(f"{parquet}-{unit}.parquet")
    return next(iter(found.make_torch_dataloader(where=[("t", ">", value)], num_epochs=1)))


def wide(rows: Any) -> Any:
    return rows.assign(y=[np.zeros(2, np.float32)] * len(rows))


#: Columns that a transform declares: scalars, and arrays with three elements.
Y, Y3 = ("y", np.float32, (), False), ("y", np.float32, (3,), False)

MASK = np.arange(8) % 2 == 0

ODD = in_lambda(["id"], lambda id: id % 2 == 1)

#: Invalid calls (given a Parquet and an MDS URL), the built-in errors they raise, and messages.
MISTAKES: list[Row] = [
    # arguments of loaders
    (
        lambda p, m: torch_batch(m, batch_size="32"),
        ValueError,
        "integer of at least 1 or None, found '32'",
    ),
    (lambda p, m: torch_batch(m, batchsize=32), TypeError, "did you mean batch_size"),
    (lambda p, m: torch_batch(m, batch=32), TypeError, "use batch_size, the number of rows"),
    (lambda p, m: torch_batch(m, shuffle=True), TypeError, "use shuffle_rows"),
    (lambda p, m: torch_batch(m, drop_last=True), TypeError, "skip it in your loop"),
    (lambda p, m: torch_batch(m, workers_count=-1), ValueError, "at least 1 or None"),
    (lambda p, m: torch_batch(m, shuffling_queue_capacity="all"), ValueError, "integer or None"),
    (lambda p, m: torch_batch(m, seed="a"), ValueError, "integer of at least 0 or None"),
    (lambda p, m: torch_batch(m, order="elastik"), ValueError, "did you mean elastic? Use one"),
    (lambda p, m: torch_batch(m, decimals="float"), ValueError, "one of 'float64', 'float32'"),
    (lambda p, m: torch_batch(m, reader_pool_type="threads"), ValueError, "one of ('thread', "),
    (lambda p, m: torch_batch(m, device="gpu"), TypeError, "such as 'cuda'"),
    (lambda p, m: torch_batch(m, batch_map=3), TypeError, "must be a function"),
    (lambda p, m: tf_batch(m, batch_size="32"), ValueError, "positive number of rows"),
    (lambda p, m: tf_batch(m, prefetch="auto"), ValueError, "prefetch must be an integer"),
    (lambda p, m: tf_batch(m, shuffling_queue_capacity=-1), ValueError, "of at least 0 or None"),
    (lambda p, m: tf_batch(m, prefetch=-3), ValueError, "of at least -1 or None"),
    # columns
    (lambda p, m: torch_batch(m, labels="X"), ValueError, "no such columns: did you mean x?"),
    (lambda p, m: torch_batch(m, balance="Id"), TypeError, "balance='Id' names no column"),
    (lambda p, m: torch_batch(m, weights="X"), TypeError, "did you mean x? Choose among ['id'"),
    (lambda p, m: torch_batch(m, schema_fields="id"), ValueError, "put it in a list"),
    (lambda p, m: torch_batch(m, schema_fields=["nope"]), ValueError, "are ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, fill_nulls={"idd": 0}), TypeError, "mean id? Choose among ['id'"),
    (lambda p, m: torch_batch(m, fill_nulls=["x"]), TypeError, "must be a dict"),
    (
        lambda p, m: torch_batch(m, fill_nulls=0),
        TypeError,
        "column to value such as {'x': 0}, found",
    ),
    (lambda p, m: torch_batch(m, null_masks="x"), TypeError, "null_masks must be a list"),
    (lambda p, m: torch_batch(m, null_masks=[["x"]]), TypeError, "strings, found ['x'] in it"),
    (lambda p, m: torch_batch(m, decode=[3]), TypeError, "decode must be a list of strings"),
    (lambda p, m: torch_batch(m, fill_nulls={3: 0}), TypeError, "strings as keys, found 3"),
    # ranks
    (lambda p, m: loader(m, cur_shard=2, shard_count=2), ValueError, "0 <= cur_shard < shard_"),
    (lambda p, m: torch_batch(m, cur_shard="0", shard_count=2), ValueError, "must be ints"),
    # functions, predicates, filters
    (lambda p, m: torch_batch(m, transform_spec=print), TypeError, "TransformSpec(function)"),
    (
        lambda p, m: torch_batch(m, transform_spec=TransformSpec(len)),
        ValueError,
        "returning the Data",
    ),
    (lambda p, m: torch_batch(m, predicate=bool), ValueError, "wrap a function in mdstorm.pred"),
    (lambda p, m: torch_batch(m, predicate=in_lambda(["no"], bool)), ValueError, "(id, x, s)"),
    (lambda p, m: torch_batch(m, filters=[("no", "=", 1)]), ValueError, "among ['id', 'x', 's']"),
    (lambda p, m: torch_batch(m, filters="id > 3"), ValueError, "(column, operator, value)"),
    (lambda p, m: torch_batch(m, filters=[("id", "=", "a")]), ValueError, "the column's type"),
    (
        lambda p, m: torch_batch(m, where=pc.field("idd") > 3),
        ValueError,
        "(idd): did you mean id? C",
    ),
    (lambda p, m: torch_batch(m, where=pc.field("id") == "a"), ValueError, "'equal' has no kernel"),
    (
        lambda p, m: torch_batch(m, where=MASK),
        TypeError,
        "found 8 values of bool: pass a mask as ro",
    ),
    (lambda p, m: torch_batch(m, where=MASK.tolist()), TypeError, "pass a mask as rows="),
    (
        lambda p, m: of_times(p, "us", "2024-01-05"),
        ValueError,
        "datetime.datetime(2024, 1, 5, 0, 0)",
    ),
    (lambda p, m: of_times(p, "day", "2024-01-05"), ValueError, "pass datetime.date(2024, 1, 5)"),
    (lambda p, m: of_times(p, "us", "May"), ValueError, "pass a datetime.datetime"),
    (
        lambda p, m: torch_batch(m, where=[("x", "=", [1, 2])]),
        ValueError,
        "use 'in': ('x', 'in', [1",
    ),
    (lambda p, m: torch_batch(m, where=[("x", "!=", [1])]), ValueError, "('x', 'not in', [1])"),
    (lambda p, m: files_of_parquet(p, rows=[99]), ValueError, "0.parquet (and 1 other) are numbe"),
    (lambda p, m: in_pseudorandom_split([0.5, 0.5], 2, "id"), ValueError, "2 for 2 fractions"),
    # files
    (lambda p, m: named(m, "1.png"), FileNotFoundError, "Relative paths begin in the dataset's d"),
    (lambda p, m: named(m, "a%20b"), FileNotFoundError, "Only file: URLs are percent-decoded: de"),
    (
        lambda p, m: named(m, "https://x.org/1.png"),
        ValueError,
        "is not read. Download the files",
    ),
    (
        lambda p, m: named(m, "there", b"x", decode="f"),
        ValueError,
        "Replace the file, or pass on",
    ),
    (lambda p, m: named(m, None, decode="f"), ValueError, "where=[('path', '!=', None)]"),
    (
        lambda p, m: named(m, "there", files_below=["/x/*.png"]),
        ValueError,
        "takes no wildcards",
    ),
    (
        lambda p, m: convert(m, files={"f": "s"}),
        ValueError,
        "pass files to make_torch_dataload",
    ),
    # creating the loader
    (lambda p, m: loader(m, batch_size=None), ValueError, "never ends with num_epochs=None"),
    (lambda p, m: loader(m, batch_size=0), ValueError, "batch_size must be an integer of at le"),
    (lambda p, m: tf_batch(m, batch_size=0), ValueError, "positive number of rows, found 0"),
    (lambda p, m: loader(m, num_epochs=0), ValueError, "found num_epochs=0"),
    (lambda p, m: loader(m, data_loader_fn=3), TypeError, "data_loader_fn must be a func"),
    (lambda p, m: loader(m, data_loader_fn=list, labels="x"), ValueError, "makes the batches"),
    (lambda p, m: loader(m, features=[]), ValueError, "features=[] must list"),
    (lambda p, m: loader(m, features={"x"}), TypeError, "a list of names, found {'x'}"),
    (lambda p, m: loader(m, sample_weights="x"), ValueError, "labels=…"),
    (lambda p, m: loader(m, labels="x", sample_weights=0.5), TypeError, "names, found 0.5"),
    (lambda p, m: loader(m, batch_map=list, labels="x"), ValueError, "and so does batch_map"),
    (lambda p, m: loader(m, device=0.5), TypeError, "'cuda:1', found 0.5"),
    (lambda p, m: loader(m, shuffle_rows="no"), TypeError, "must be True or False, found 'no'"),
    (lambda p, m: loader(m, shuffle_row_groups="False"), TypeError, "found 'False'"),
    (lambda p, m: loader(m, shuffle_row_drop_partitions=0), ValueError, "at least 1"),
    (lambda p, m: loader(m, cur_shard=-1, shard_count=2), ValueError, "found cur_shard=-1"),
    (lambda p, m: loader(m, cur_shard="auto", shard_count=2), ValueError, "leave shard_count"),
    (lambda p, m: torch_batch(m, cur_shard=3, shard_count=99), Exception, "8 rows for 99 ranks"),
    (lambda p, m: loader(m, pin_memory=True), TypeError, "'pin_memory': use device, to which"),
    (lambda p, m: loader(m, collate_fn=list), TypeError, "'collate_fn': use batch_map, a function"),
    (lambda p, m: loader(m, cur_shard=1), ValueError, "shard_count=None. Pass both"),
    (lambda p, m: convert(m, cache_dir=m), TypeError, "did you mean parent_cache_dir_url?"),
    (lambda p, m: convert(m, fillna=0), TypeError, "keywords are files, files_below, version; h"),
    (lambda p, m: loader(m, fps=1), TypeError, "; help(make_torch_dataloader) and docs/api of mds"),
    (lambda p, m: order(shuffle=True), TypeError, "'shuffle': did you mean shuffle_rows?"),
    (lambda p, m: len(lazy(m, columns=["no"])), TypeError, "['no']: choose among ['id', 'x', 's']"),
    (lambda p, m: StreamingDataset(local=m, split="val"), OSError, "has no index.json"),
    (lambda p, m: StreamingDataset(**{"shufle": 1}), TypeError, "'shufle': did you mean shuffle?"),
    (lambda p, m: loader(m, schema_fields=["x("]), ValueError, "write 'x\\\\('"),
    (lambda p, m: loader(m, schema_fields=3), ValueError, "found 3: put it in a list"),
    (lambda p, m: loader(m, **cached(m, limit="1gb")), TypeError, "bytes for cache_type"),
    (lambda p, m: loader(m, **cached(m, limit=10)), ValueError, "Raise cache_size_limit"),
    (lambda p, m: loader(m, **cached("s3://b/x")), ValueError, "must be a local directory"),
    (lambda p, m: loader(m, **cached(m) | {"cache_location": 7}), TypeError, "must be a directory"),
    (
        lambda p, m: torch_batch(m, **cached(m), predicate=ODD),
        RuntimeError,
        "predicates on columns other than",
    ),
    (lambda p, m: loader(m, **cached(m), order="elastic"), RuntimeError, "leave out one of"),
    (lambda p, m: torch_batch(m, fill_nulls={"s": 0}), ValueError, "of type string, which cannot"),
    (lambda p, m: torch_batch(m, fill_nulls={"id": 0.5}), ValueError, "it would become 0"),
    (lambda p, m: torch_batch(m, fill_nulls={"id": None}), ValueError, "pass a value of that type"),
    (lambda p, m: torch_batch(m, null_masks=["no"]), TypeError, "name columns ['no'] that are not"),
    (lambda p, m: tf_batch(m, batch_map=len), TypeError, "has .map(function)"),
    (lambda p, m: tf_batch(m, device="cuda"), TypeError, "TensorFlow copies tensors to devices"),
    # return values of functions
    (lambda p, m: transformed(m, lambda d: None), ValueError, "returned NoneType"),
    (lambda p, m: transformed(m, lambda d: d.assign(y="a"), Y), ValueError, "declared as float32"),
    (lambda p, m: transformed(m, wide, Y3), ValueError, "must be the shape (3,), found (2,)"),
    # wrong kinds of data
    (lambda p, m: convert(pd.DataFrame()), TypeError, "found pandas.DataFrame: make a DataFrame w"),
    (lambda p, m: convert("/nope"), OSError, "Check the URL"),
    (lambda p, m: convert(table_of_text(m)), ValueError, "read it with Spark, pandas or pyarrow"),
    (lambda p, m: convert(None), TypeError, "or the name of a table, found NoneType: "),
    (lambda p, m: convert("v1"), FileNotFoundError, "use make_spark_converter(spark.table('v1'))"),
    (lambda p, m: convert("default.v1"), FileNotFoundError, "onverter(spark.table('default.v1'))"),
    (lambda p, m: convert(m, decimals="double"), ValueError, "found 'double'"),
    (lambda p, m: convert(m, keep="yes"), TypeError, "keep must be True or False"),
    (lambda p, m: convert(m, cache_key=""), TypeError, "cache_key must be a non-empty"),
    (lambda p, m: by_hand(m, m, 8), TypeError, "file_urls must be a list"),
    # lengths, states, and calls at the wrong time
    (lambda p, m: len(loader(m)), TypeError, "never ends"),
    (lambda p, m: len(loader(m, num_epochs=1, predicate=ODD)), TypeError, "instead of filters"),
    (lambda p, m: loader(m).load_state_dict({"epoch": 1}), ValueError, "['epoch'], is not a state"),
    (
        lambda p, m: loader(m).load_state_dict("{}"),
        ValueError,
        "found text: parse it with json.loads",
    ),
    (lambda p, m: loader(m).load_state_dict(whole(m)), ValueError, "pass its value of 'loader'"),
    (lambda p, m: loader(m, num_epochs=1).trace().where(99), ValueError, "to 7, found 99: file"),
    (
        lambda p, m: loader(m, num_epochs=1).trace().find("n3"),
        ValueError,
        "numbers(where) finds ro",
    ),
    (
        lambda p, m: loader(m).trace().find(["n3"]),
        ValueError,
        "dataset.numbers(where) finds rows by",
    ),
    (lambda p, m: resumed(m, streamed(m)), ValueError, "the order 'exact'"),
    (lambda p, m: resumed(m, convert(p).make_torch_dataloader()), ValueError, "same cache_key= to"),
    (lambda p, m: loader(m).set_epoch("1"), ValueError, "at least 0, found '1'"),
    (lambda p, m: resumed(m, loader(m, predicate=ODD)), ValueError, "there, None here"),
    (lambda p, m: BatchedDataLoader(loader(m)), TypeError, "is not a reader, but yields batches"),
    (lambda p, m: InMemBatchedDataLoader(loader(m)), TypeError, "iterate over it"),
    (lambda p, m: make_petastorm_dataset(loader(m)), TypeError, "use make_tf_dataset"),
    (lambda p, m: list(convert(m)), TypeError, "iterate over converter.make_torch_dataloader(…)"),
    (lambda p, m: convert(m)[0], TypeError, "a converter has no rows to iterate over or index"),
    (lambda p, m: list(DataLoader(convert(m))), TypeError, "iterate over converter.make_torch"),
    (lambda p, m: deleted(m).make_torch_dataloader(), FileNotFoundError, "deleted by delete()"),
    (lambda p, m: torch_of_copy(m), FileNotFoundError, "convert with keep=True or a"),
]


test_a_mistake_raises_an_error_with_its_remedy = mistakes_test(MISTAKES)


def test_error_for_image_bytes_in_tensors_names_decode(tmp_path: Path) -> None:
    pq.write_table(pa.table({"photo": [b"\xff\xd8\xff\xe0"] * 4}), tmp_path / "a.parquet")
    reader = make_batch_reader(f"file://{tmp_path}", num_epochs=1)
    with pytest.raises(TypeError, match="pass decode='photo', size=224 to the reader"):
        next(iter(BatchedDataLoader(reader, batch_size=2)))


def test_error_for_struct_columns_names_schema_fields(tmp_path: Path) -> None:
    pq.write_table(pa.table({"point": [{"x": 1}] * 4}), tmp_path / "a.parquet")
    loader = make_spark_converter(tmp_path).make_torch_dataloader(num_epochs=1)
    left_out = pytest.warns(UserWarning, match="'point' has an unsupported field type")
    with left_out, pytest.raises(RuntimeError, match=r"you list them: pass schema_fields=\['poin"):
        next(iter(loader))
    named = make_spark_converter(tmp_path).make_torch_dataloader(schema_fields=["point"])
    assert next(iter(named))["point"][0] == {"x": 1}
