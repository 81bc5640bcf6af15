"""Petastorm's tools, and the inner names that programs import."""

import argparse
import contextlib
import io
import pickle
import runpy
import sys
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from petastorm.benchmark.throughput import ReadMethod, WorkerPoolType
from petastorm.etl import RowGroupIndexerBase
from petastorm.etl.dataset_metadata import UNISCHEMA_KEY, get_schema_from_dataset_url
from petastorm.etl.legacy import depickle_legacy_package_name_compatible
from petastorm.etl.rowgroup_indexers import SingleFieldIndexer
from petastorm.etl.rowgroup_indexing import ROWGROUPS_INDEX_KEY, PieceInfo
from petastorm.tools.copy_dataset import args_parser, copy_dataset
from petastorm.tools.spark_session_cli import add_configure_spark_arguments, configure_spark
from petastorm.unischema import _numpy_and_codec_from_arrow_type, _numpy_to_spark_mapping
from tests.conformance.describing import describe, error_of
from tests.conformance.place import DATA, Place
from tests.conformance.reading import rows


def _copy(place: Place, spark: Any, **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "field_regex": None,
        "not_null_fields": None,
        "overwrite_output": False,
        "partitions_count": None,
        "row_group_size_mb": 1,
    }
    copy_dataset(spark, place.dataset("places"), place.url("copy"), **{**arguments, **changes})


def _written(place: Place) -> Any:
    """The fields and rows of the copy, in an order that nothing depends on."""
    url = place.url("copy")
    types = {
        name: [field.numpy_dtype.__name__.rstrip("_"), field.shape, field.nullable]
        for name, field in sorted(get_schema_from_dataset_url(url).fields.items())
    }
    found = [dict(sorted(row._asdict().items())) for row in rows(url)]
    return [types, sorted(found, key=lambda row: row["id"])]


def a_copy_of_a_dataset_and_a_part_of_it_in_its_place(place: Place, spark: Any) -> Any:
    _copy(place, spark)
    whole = _written(place)
    try:
        _copy(place, spark)
    except Exception as error:
        refusal = [
            type(error).__name__,
            "already exists" in str(error),
            describe(_written(place)) == describe(whole),
        ]
    part = {"field_regex": ["i.", "tag"], "not_null_fields": ["tag"], "partitions_count": 1}
    _copy(place, spark, overwrite_output=True, **part)
    return [whole, refusal, _written(place)]


def arguments_of_a_copy(place: Place) -> Any:
    short = ["file:///a", "file:///b"]
    options = ["--overwrite-output", "--field-regex", "a", "b", "--not-null-fields", "c"]
    sizes = ["--partition-count", "3", "--row-group-size-mb", "4", "--master", "local[2]"]
    spark = ["--spark-session-config", "spark.a=1", "spark.b=2"]
    given = [short, [*short, *options, *sizes, *spark]]
    return [vars(args_parser().parse_args(one)) for one in given]


class _Builder:
    """Notes what is set."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def config(self, key: str, value: str) -> "_Builder":
        self.calls.append([key, value])
        return self

    def master(self, name: str) -> "_Builder":
        self.calls.append(name)
        return self


def _configured(*line: str) -> Any:
    parser, builder = argparse.ArgumentParser(), _Builder()
    add_configure_spark_arguments(parser)
    same = configure_spark(builder, parser.parse_args(line))
    return [same is builder, builder.calls]


def a_configured_session(place: Place) -> Any:
    return [
        _configured(),
        _configured("--master", "local[3]"),
        _configured("--spark-session-config", "spark.a=1", "spark.b=x y", "--master", "m"),
        error_of(lambda: _configured("--spark-session-config", "spark.a"), "key=value format"),
        error_of(lambda: configure_spark(_Builder(), argparse.Namespace()), "Call add_configure"),
    ]


def _metadata(name: str) -> Any:
    return pq.read_schema(DATA / name / "_common_metadata").metadata


def a_schema_from_its_pickle(place: Place) -> Any:
    schema = depickle_legacy_package_name_compatible(_metadata("places")[UNISCHEMA_KEY])
    return [type(schema).__name__, [[f.name, f.shape, f.nullable] for f in schema.fields.values()]]


def indexes_from_their_pickle(place: Place) -> Any:
    indexes = depickle_legacy_package_name_compatible(_metadata("places")[ROWGROUPS_INDEX_KEY])
    return {
        name: [type(index).__name__, index.column_names, sorted(map(str, index.indexed_values))]
        for name, index in indexes.items()
    }


def _printed(module: str, *line: str) -> list[str]:
    """What a module prints that is run as a program."""
    printed = io.StringIO()
    sys.modules.pop(module, None)  # as in a process of its own
    with mock.patch.object(sys, "argv", [module, *line]), contextlib.redirect_stdout(printed):
        runpy.run_module(module, run_name="__main__")
    return printed.getvalue().splitlines()


def indexes_on_the_command_line(place: Place) -> Any:
    line = ["--dataset-url", place.dataset("places"), "--index", "--skip-index", "by_id"]
    module = "petastorm.etl.metadata_util"
    return [sorted(_printed(module, *line)), sorted(_printed(module, *line, "--print-values"))]


def names_of_the_benchmark(place: Place) -> Any:
    return [[str(one) for one in WorkerPoolType], [str(one) for one in ReadMethod]]


def row_groups_by_name(place: Place) -> Any:
    piece = PieceInfo(0, "a.parquet", 1, [("city", 2)])
    return [piece, pickle.loads(pickle.dumps(piece)) == piece, PieceInfo._fields]  # noqa: S301


def indexers_have_a_base(place: Place) -> Any:
    return issubclass(SingleFieldIndexer, RowGroupIndexerBase)


def spark_types_of_numpy_types(place: Place) -> Any:
    found = _numpy_to_spark_mapping()
    names = ["int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64", "str_"]
    types = [getattr(np, name) for name in [*names, "bytes_", "bool_"]]
    return [[found[one].simpleString() for one in types], np.uint32 in found]


def numpy_types_of_arrow_types(place: Place) -> Any:
    types = [pa.int8(), pa.uint8(), pa.int32(), pa.string(), pa.bool_(), pa.float64(), pa.binary()]
    others = [pa.decimal128(5, 2), pa.date32(), pa.timestamp("us"), pa.list_(pa.float32())]
    unknown = pa.struct([("a", pa.int8())])
    return [
        [_numpy_and_codec_from_arrow_type(one) for one in [*types, *others]],
        _numpy_and_codec_from_arrow_type(pa.list_(pa.list_(pa.int16()))),
        error_of(lambda: _numpy_and_codec_from_arrow_type(unknown), "unsupported column type"),
    ]
