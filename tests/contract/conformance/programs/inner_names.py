"""Petastorm's internal names that programs import."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
from petastorm.etl import RowGroupIndexerBase
from petastorm.etl.rowgroup_indexers import SingleFieldIndexer
from petastorm.etl.rowgroup_indexing import PieceInfo
from petastorm.unischema import _numpy_and_codec_from_arrow_type, _numpy_to_spark_mapping
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place


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
