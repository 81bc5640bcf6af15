"""Rows of every codec as Spark stores them, for tests of datasets that are written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    DataframeColumnCodec,
    NdarrayCodec,
)
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row

SCHEMA = Unischema(
    "Sch",
    [
        UnischemaField("id", np.int64, ()),
        UnischemaField("vec", np.float32, (2,), NdarrayCodec()),
        UnischemaField("mat", np.int16, (None, 2), NdarrayCodec(), True),
        UnischemaField("mask", np.bool_, (2, 2), NdarrayCodec()),
        UnischemaField("zipped", np.float64, (None,), CompressedNdarrayCodec(), True),
        UnischemaField("image", np.uint16, (2, 2, 3), CompressedImageCodec("png")),
        UnischemaField("name", np.str_, (), None, True),
        UnischemaField("split", np.str_, ()),
    ],
)


def row(i: int) -> dict[str, Any]:
    return {
        "id": np.int64(i),
        "vec": np.array([i, -i], np.float32),
        "mat": None if i % 3 == 1 else np.full((i % 4, 2), i, np.int16),
        "mask": np.array([[i % 2 == 0, True], [False, i % 3 == 0]]),
        "zipped": None if i % 5 == 2 else np.arange(i % 3) / 2,
        "image": np.full((2, 2, 3), i * 1000, np.uint16),
        "name": None if i % 4 == 3 else np.str_(f"näme {i}"),
        "split": np.str_("train" if i % 2 else "test"),
    }


def encoded(numbers: range) -> pa.Table:
    """Return rows as Spark stores them."""
    rows = [dict_to_spark_row(SCHEMA, row(i)).asDict() for i in numbers]
    binary = ["vec", "mat", "mask", "zipped", "image"]
    types = {name: pa.binary() for name in binary} | {"id": pa.int64()}
    return pa.table(
        {
            name: pa.array(
                [bytes(r[name]) if isinstance(r[name], bytearray) else r[name] for r in rows],
                types.get(name, pa.string()),
            )
            for name in SCHEMA.fields
        }
    )


def write(directory: Path, name: str, numbers: range) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(encoded(numbers), directory / name)
    return directory / name


class JsonCodec(DataframeColumnCodec):
    """A user's own codec of any value, as text or as bytes."""

    def encode(self, unischema_field: Any, value: Any) -> Any:
        raise NotImplementedError

    def decode(self, unischema_field: Any, value: Any) -> Any:
        type_, found = unischema_field.numpy_dtype, json.loads(value)
        return np.array(found, type_) if unischema_field.shape else type_(found)

    def spark_dtype(self) -> Any:
        raise NotImplementedError
