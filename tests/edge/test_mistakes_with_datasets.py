"""The messages for common mistakes with schemas, writers, datasets and names give a remedy."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import LongType
from tests.kit.mistakes import Row, beside, mistakes_test

import mdstorm
import mdstorm_backend
from mdstorm import codecs, make_batch_reader, unischema
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset

#: Untyped, because type checkers would report many of these mistakes first.
of: Any = codecs
field: Any = unischema.UnischemaField
to_row: Any = unischema.dict_to_spark_row
engine: Any = mdstorm_backend
every: Any = mdstorm

ID = field("id", np.int64, (), of.ScalarCodec(LongType()), False)
V = field("v", np.uint8, (2, 2), of.NdarrayCodec(), False)
SCHEMA = unischema.Unischema("S", [ID, V])
GOOD = np.zeros((2, 2), np.uint8)


def schema(*arguments: Any) -> Any:
    return unischema.Unischema("S", [field(*arguments)])


def dataset(mds: str, **arguments: Any) -> Any:
    return engine.StreamingDataset(local=mds.removeprefix("file://"), batch_size=2, **arguments)


def loader(mds: str, **arguments: Any) -> Any:
    return engine.StreamingDataLoader(dataset(mds), batch_size=2, **arguments)


def batch(mds: str, **arguments: Any) -> Any:
    return next(open_dataset(mds).batches(**{"batch_size": 2, **arguments}))


def convert(parquet: Any, **arguments: Any) -> Any:
    return mdstorm.convert(parquet, "/tmp/never-written", progress=False, **arguments)


def write(mds: str, value: Any, encoding: str = "int", **arguments: Any) -> Any:
    """Write a sample, Arrow data, or another object."""
    columns = {"columns": {"a": encoding}, **arguments}
    with engine.MDSWriter(out=f"{mds}-new", exist_ok=True, **columns) as writer:
        (writer.write if isinstance(value, (dict, list)) else writer.write_batch)(value)
        writer.finish()
        writer.write(value)


def import_from(module: str, name: str) -> None:
    exec(f"from {module} import {name}", {"__name__": "a program"})


def exact_state(mds: str) -> Any:
    return make_spark_converter(mds).make_torch_dataloader().state_dict()


def resumed(mds: str, state: Any) -> None:
    loader(mds).load_state_dict(state)


#: Each row has an invalid call (given a Parquet and an MDS URL), its built-in error and message.
MISTAKES: list[Row] = [
    # schemas, codecs, rows
    (lambda p, m: schema("a", "int63", ()), ValueError, "numpy_dtype 'int63': pass a NumPy type"),
    (lambda p, m: schema("a", np.uint8, 3), ValueError, "shape 3: pass a tuple, () for a scalar"),
    (lambda p, m: schema("a", np.uint8, (3,), of.NdarrayCodec), ValueError, "NdarrayCodec'>: pass"),
    (lambda p, m: unischema.Unischema("S", ID), TypeError, "takes UnischemaField objects, found '"),
    (lambda p, m: of.ScalarCodec(LongType), TypeError, "such as LongType(), found <class"),
    (lambda p, m: of.CompressedImageCodec(3), TypeError, "must be a non-empty string, found 3"),
    (lambda p, m: of.CompressedImageCodec(None), TypeError, "a non-empty string, found None"),
    (lambda p, m: of.CompressedImageCodec("webp2"), ValueError, "'webp2': did you mean webp?"),
    (lambda p, m: of.NdarrayCodec().decode(V, b"abc"), ValueError, "holds 3 bytes that are"),
    (lambda p, m: of.CompressedImageCodec().decode(V, b"abc"), ValueError, "not an image"),
    (lambda p, m: to_row(SCHEMA, {"id": 1}), ValueError, "Field v is not found in the row_dict"),
    (lambda p, m: to_row(SCHEMA, {"id": 1, "v": GOOD, "z": 1}), ValueError, "unknown z"),
    (lambda p, m: to_row(SCHEMA, {"id": None, "v": GOOD}), TypeError, "but got a None value"),
    (lambda p, m: to_row(SCHEMA, [1]), TypeError, "row_dict must be a dict, not [1]"),
    (lambda p, m: to_row({"id": 1}, SCHEMA), TypeError, "unischema must be a Unischema"),
    # writers
    (lambda p, m: engine.MDSWriter(out=m, columns={"a": "int"}), FileExistsError, "exist_ok=True"),
    (lambda p, m: write(m, {}, "integer"), TypeError, "did you mean int?"),
    (lambda p, m: write(m, {}, "float"), TypeError, "did you mean float16, float32 or float64?"),
    (
        lambda p, m: write(m, {}, "nonsense"),
        TypeError,
        "encodings are bytes, float16, float32, flo",
    ),
    (lambda p, m: write(m, {}, columns={"a": int}), TypeError, "<class 'int'>}: use 'int'"),
    (lambda p, m: write(m, {}, columns={"a": float}), TypeError, "float32 or float64?"),
    (lambda p, m: write(m, {}, columns={"a": np.dtype("int8")}), TypeError, "use 'int8'"),
    (
        lambda p, m: write(m, {}, columns={1: "int"}),
        TypeError,
        "the name of a column must be a str",
    ),
    (lambda p, m: write(m, {}, columns=["a"]), TypeError, "a dict from column to encoding"),
    (lambda p, m: write(m, {}, shard_size=3), ValueError, "['shard_size']. Valid ones are columns"),
    (lambda p, m: write(m, {"a": None}), TypeError, "pass Arrow data to write_batch"),
    (lambda p, m: write(m, {"a": GOOD}, "jpeg"), TypeError, "by PIL's Image.fromarray(…)"),
    (lambda p, m: write(m, {"a": 1.5}), ValueError, "expected an integer, found float"),
    (
        lambda p, m: write(m, {"a": 10**5000}, "str_int"),
        ValueError,
        "with encoding 'str_int' cannot hold a value of <class 'int'>: Exceeds the limit",
    ),
    (lambda p, m: write(m, {"a": 1}), RuntimeError, "takes no more samples"),
    (lambda p, m: write(m, pd.DataFrame()), TypeError, "use pyarrow.Table.from_pandas(…)"),
    (lambda p, m: write(m, pa.table({"b": [1]})), KeyError, "the data has no column 'a'"),
    (lambda p, m: engine.dataframe_to_mds(pd.DataFrame()), TypeError, "MDSWriter.write_batch"),
    (lambda p, m: engine.materialize(pd.DataFrame(), "out"), TypeError, "spark.createDataFrame"),
    # datasets
    (lambda p, m: len(engine.StreamingDataset(remote=p)), FileNotFoundError, "mdstorm convert"),
    (lambda p, m: engine.open_dataset(None), TypeError, "expected a URL or a path, found None"),
    (
        lambda p, m: engine.open_dataset(loader(m)),
        TypeError,
        "found <class 'mdstorm_backend.loaders.torch.streaming_data_loader.StreamingDataLoader'>: ",
    ),
    (lambda p, m: engine.open_dataset(loader(m).state_dict()), TypeError, "found <class 'dict'>: "),
    (
        lambda p, m: engine.open_dataset(pd.DataFrame({"a": range(99)})),
        TypeError,
        "DataFrame'>: pass one, a list of them, or a table of pyiceberg or deltalake; Spark's",
    ),
    (lambda p, m: engine.open_dataset(m, storage_options="a"), TypeError, "must be a dict, found"),
    (lambda p, m: open_dataset(m)["x"], ValueError, "by 'x': use an integer, a slice"),
    (lambda p, m: open_dataset(m)[99], IndexError, "whose samples are numbered from 0"),
    (lambda p, m: every.open_dataset(p, columns=["id"]), TypeError, "choose them when you read"),
    (lambda p, m: every.open_dataset(p, batch_size=2), TypeError, "with batches(batch_size)"),
    (lambda p, m: open_dataset([m, m]), ValueError, "several MDS datasets as streams of a Strea"),
    (lambda p, m: convert(p, size_limit="1mb"), TypeError, "use shard_size, the maximum numb"),
    (lambda p, m: engine.merge_index([f"{m}/index.json"]), TypeError, "'out': call merge_index(r"),
    (lambda p, m: engine.merge_index(m, outt=m), TypeError, "argument 'outt': call merge_index(r"),
    (lambda p, m: SCHEMA.idd, AttributeError, "has no field 'idd': did you mean id? Choose among"),
    (lambda p, m: batch(m, columns=["no"]), TypeError, "choose among"),
    (lambda p, m: batch(m, columns="x"), TypeError, "pass a list, ['x']"),
    (lambda p, m: batch(m, batch_size=0), ValueError, "a positive number of rows, found 0"),
    (lambda p, m: batch(m, format="polars"), ValueError, "use one of ['numpy', 'arrow', 'pandas']"),
    (lambda p, m: batch(m, order="exact"), TypeError, "must be an Order, found 'exact'"),
    (lambda p, m: engine.register_encoding("x", int), ValueError, "encode(value) -> bytes"),
    (lambda p, m: engine.StreamingDataset(m), TypeError, "streams=…, remote=…, local=…"),
    (lambda p, m: engine.StreamingDataset(), ValueError, "either `streams` or `remote`/`local`"),
    (lambda p, m: engine.StreamingDataset(local="/nope"), OSError, "No `remote` provided"),
    (lambda p, m: engine.StreamingDataset(streams=m), TypeError, "a list of mdstorm_backend.Strea"),
    (lambda p, m: engine.StreamingDataset(streams=[]), ValueError, "at least one Stream"),
    (lambda p, m: dataset(m, split="train"), FileNotFoundError, "pass its URL as remote"),
    (lambda p, m: dataset(m, shuffle="yes"), TypeError, "shuffle must be True or False"),
    (lambda p, m: dataset(m, sampling_method="best"), ValueError, "one of ('balanced', 'fixed')"),
    (lambda p, m: dataset(m, stream_name="other"), ValueError, "streams_registry.register("),
    (lambda p, m: dataset(m, epoch_size="all"), ValueError, "one of the suffixes k, m, b, t"),
    (lambda p, m: dataset(m, order="exact"), TypeError, "for example order=ExactOrder("),
    (lambda p, m: dataset(m, download_timeout="slow"), ValueError, "positive number of seconds"),
    (lambda p, m: list(dataset(m, validate_hash="sha1")), ValueError, "dataset with hashes=[…]"),
    (lambda p, m: engine.StreamingDataLoader("mds"), TypeError, "open_dataset"),
    (lambda p, m: engine.StreamingDataLoader(make_spark_converter(m)), TypeError, "torch_dataload"),
    (lambda p, m: engine.StreamingDataLoader(make_batch_reader(p)), TypeError, "found Reader("),
    (lambda p, m: engine.StreamingDataLoader(loader(m)), TypeError, "create a dataset with Str"),
    (lambda p, m: loader(m, shuffle=True), ValueError, "StreamingDataset(…, shuffle=True)"),
    (lambda p, m: loader(m, batch_map="x"), TypeError, "batch_map must be a function, found 'x'"),
    (lambda p, m: loader(m, batch_map=len, collate_fn=len), ValueError, "only one of them"),
    (
        lambda p, m: next(
            iter(loader(m, num_workers=1, multiprocessing_context="spawn", collate_fn=lambda b: b))
        ),
        TypeError,
        "at the top level of a module",
    ),
    (lambda p, m: resumed(m, exact_state(m)), ValueError, "not taken in the order 'elastic'"),
    # conversions
    (lambda p, m: mdstorm.convert(p, m), FileExistsError, "overwrite=True"),
    (lambda p, m: mdstorm.convert(p, f"{p}/mds"), ValueError, "source and destination overlap"),
    (lambda p, m: mdstorm.convert(p, beside(p, "others")), FileExistsError, "such as 0.parquet"),
    (lambda p, m: convert(p, columns="id"), TypeError, "put it in a list"),
    (lambda p, m: convert(p, columns=["ID"]), KeyError, "among ['id', 'x', 's']"),
    (lambda p, m: convert(p, columns=["x", "x"]), ValueError, "each only once; found ['x', 'x']"),
    (lambda p, m: convert(p, dtype="float16"), ValueError, "Use 'float32' or float64, or None"),
    (lambda p, m: convert(p, shard_size="1gb"), ValueError, "found '1gb'"),
    (lambda p, m: convert(p, compression="lzma"), ValueError, "'lzma' is unknown: use None or one"),
    (lambda p, m: convert(p, workers=0), ValueError, "found 0"),
    (lambda p, m: convert(Path("/nope/p")), FileNotFoundError, "neither a Parquet file nor a dir"),
    (lambda p, m: convert(m), ValueError, "not Parquet, so it cannot be converted"),
    (lambda p, m: convert(beside(p, "empty")), FileNotFoundError, "whether the job that writes t"),
    # names
    (lambda p, m: import_from("mdstorm", "make_spark_converter"), ImportError, "it is mdstorm.spa"),
    (lambda p, m: import_from("mdstorm", "MDSWriter"), ImportError, "is mdstorm_backend.MDSWriter"),
    (
        lambda p, m: import_from("mdstorm_backend", "make_spark_converter"),
        ImportError,
        "it is mdstorm.spark.make_spark_converter",
    ),
    (lambda p, m: mdstorm_backend.make_reader, AttributeError, "it is mdstorm.make_reader"),  # type: ignore[attr-defined]
    (lambda p, m: mdstorm_backend.DataLoader, AttributeError, "mdstorm_backend.StreamingDataLoa"),  # type: ignore[attr-defined]
    (lambda p, m: import_module("mdstorm.torch"), ImportError, "'mdstorm.torch': it is mdstorm.py"),
    (lambda p, m: import_from("mdstorm", "torch"), ImportError, "'mdstorm': it is mdstorm.pytorch"),
    (lambda p, m: import_module("mdstorm.tensorflow"), ImportError, "it is mdstorm.tf_utils"),
    (lambda p, m: mdstorm.DataLoader, AttributeError, "it is mdstorm.pytorch.DataLoader"),
]


test_a_mistake_raises_an_error_with_its_remedy = mistakes_test(MISTAKES)
