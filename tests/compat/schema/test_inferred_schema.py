"""The Unischema that columns imply, where none is stored."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema, infer_unischema
from mdstorm_backend.datasets.dataset import open_dataset
from mdstorm_backend.parquet import open_parquet
from mdstorm_backend.write.mds_writer import MDSWriter

TYPES: list[tuple[pa.DataType, Any, tuple[int | None, ...]]] = [
    (pa.bool_(), np.bool_, ()),
    (pa.int8(), np.int8, ()),
    (pa.uint8(), np.uint8, ()),
    (pa.int64(), np.int64, ()),
    (pa.uint32(), np.uint32, ()),
    (pa.float32(), np.float32, ()),
    (pa.string(), np.str_, ()),
    (pa.large_string(), np.str_, ()),
    (pa.binary(), np.bytes_, ()),
    (pa.date32(), np.datetime64, ()),
    (pa.timestamp("us", tz="UTC"), np.datetime64, ()),
    (pa.decimal128(10, 2), Decimal, ()),
    (pa.list_(pa.float64()), np.float64, (None,)),
    (pa.list_(pa.string()), np.str_, (None,)),
    (pa.list_(pa.int16(), 4), np.int16, (4,)),
    (pa.dictionary(pa.int32(), pa.string()), np.str_, ()),
]


@pytest.mark.parametrize(("type_", "dtype", "shape"), TYPES, ids=[str(t[0]) for t in TYPES])
def test_types_of_arrow_are_types_of_fields(
    type_: pa.DataType, dtype: Any, shape: tuple[int | None, ...]
) -> None:
    fields = pa.schema([pa.field("a", type_, nullable=False), pa.field("b", type_)])
    schema = Unischema.from_arrow_schema(fields)
    assert schema._name == "inferred_schema"
    assert tuple(schema.fields["a"]) == ("a", dtype, shape, None, False)
    assert schema.fields["b"].nullable


def test_columns_of_partitions_come_first(tmp_path: Path) -> None:
    pq.write_to_dataset(
        pa.table({"a": [1, 2], "year": [2020, 2021], "kind": ["x", "y"]}),
        tmp_path,
        partition_cols=["year", "kind"],
    )
    for dataset in (pq.ParquetDataset(tmp_path), open_parquet(str(tmp_path))):
        schema = Unischema.from_arrow_schema(dataset)
        assert [(f.name, f.numpy_dtype) for f in schema.fields.values()] == [
            ("year", np.int64),
            ("kind", np.str_),
            ("a", np.int64),
        ]


def test_columns_keep_their_types_without_partitions(tmp_path: Path) -> None:
    pq.write_table(pa.table({"f": [0.5], "b": [True], "y": [b"x"]}), tmp_path / "a.parquet")
    for path in (tmp_path, tmp_path / "a.parquet"):
        schema = Unischema.from_arrow_schema(pq.ParquetDataset(path))
        assert [f.numpy_dtype for f in schema.fields.values()] == [np.float64, np.bool_, np.bytes_]


def test_something_else_has_no_schema() -> None:
    with pytest.raises(InvalidArgumentError, match="has no Arrow schema"):
        Unischema.from_arrow_schema("url")


def test_columns_of_mds_are_fields(tmp_path: Path) -> None:
    columns = {"a": "ndarray:float32:2,3", "b": "png", "c": "int32", "d": "str", "e": "ndarray"}
    from PIL import Image

    with MDSWriter(columns=columns, out=str(tmp_path)) as writer:
        array = np.zeros((2, 3), np.float32)
        image = Image.new("RGB", (2, 2))
        writer.write({"a": array, "b": image, "c": np.int32(1), "d": "x", "e": array})
    schema = infer_unischema(open_dataset(str(tmp_path)).schema)
    assert {name: (f.numpy_dtype, f.shape) for name, f in schema.fields.items()} == {
        "a": (np.float32, (2, 3)),
        "b": (np.uint8, (None, None, None)),
        "c": (np.int32, ()),
        "d": (np.str_, ()),
    }
