"""Rows that Petastorm wrote to ``golden``, and rows for every codec as Spark stores them."""

import json
from decimal import Decimal
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
from mdstorm.reader import make_reader
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("codecs", "partitioned", "summary")


def golden_url(name: str) -> str:
    return f"file://{GOLDEN / name}"


def expected_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows that Petastorm's reader returned, sorted by ``id``."""
    rows = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return [{key: _value(value) for key, value in row.items()} for row in rows]


def _value(text: Any) -> Any:
    if text is None:
        return None
    if text[0] == "Decimal":
        return Decimal(text[1])
    kind, dtype, shape, values = text
    array = np.array(values, np.dtype(dtype).newbyteorder("=")).reshape(shape)
    return array if kind == "ndarray" else array[()]


def read_rows(url: str) -> list[Any]:
    """Return a dataset's rows, sorted by ``id``."""
    with make_reader(url, shuffle_row_groups=False) as reader:
        return sorted(reader, key=lambda row: row.id)


def assert_same(found: Any, expected: Any, what: str = "") -> None:
    """Assert that two values are equal and have the same type, dtype and shape."""
    if expected is None or isinstance(expected, Decimal):
        assert found == expected, what
        assert type(found) is type(expected), what
        return
    wanted = np.asarray(expected)
    array = np.asarray(found)
    assert array.shape == wanted.shape, what
    assert array.dtype.newbyteorder("=") == wanted.dtype, what
    assert isinstance(found, np.ndarray) == isinstance(expected, np.ndarray), what
    if what.endswith("jpeg"):  # JPEG decoders round differently
        assert np.abs(array.astype(int) - wanted).max() <= 2, what
    else:
        np.testing.assert_array_equal(array, wanted, what)


def assert_rows(found: list[Any], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert list(row._fields) == list(wanted)
        for name, value in wanted.items():
            assert_same(getattr(row, name), value, f"{wanted['id']}.{name}")


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
    """Return the rows with the given numbers as Spark stores them."""
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
    """A user-defined codec that decodes JSON values stored as text or bytes."""

    def encode(self, unischema_field: Any, value: Any) -> Any:
        raise NotImplementedError

    def decode(self, unischema_field: Any, value: Any) -> Any:
        type_, found = unischema_field.numpy_dtype, json.loads(value)
        return np.array(found, type_) if unischema_field.shape else type_(found)

    def spark_dtype(self) -> Any:
        raise NotImplementedError
