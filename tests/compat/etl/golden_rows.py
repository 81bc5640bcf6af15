"""The datasets in ``golden``, which Petastorm wrote, and what its reader made of them."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from mdstorm._rows import rows_of
from mdstorm.unischema import Unischema
from mdstorm_backend.read.shard import SampleSource

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("codecs", "partitioned", "summary")


def golden_url(name: str) -> str:
    return f"file://{GOLDEN / name}"


def expected_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows that Petastorm's reader delivered, by their ``id``."""
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


def read_rows(source: SampleSource, schema: Unischema) -> list[Any]:
    """Return the rows of a source as the row reader delivers them, by their ``id``."""
    rows = []
    for number, size in enumerate(source.shard_sizes):
        batch = source.shard(number).read(np.arange(size), tuple(schema.fields))
        rows += rows_of(batch, schema._get_namedtuple(), source.schema.get)
    return sorted(rows, key=lambda row: row.id)


def assert_same(found: Any, expected: Any, what: str = "") -> None:
    """Assert that two values are of one type, dtype and shape, and equal."""
    if expected is None or isinstance(expected, Decimal):
        assert found == expected, what
        assert type(found) is type(expected), what
        return
    wanted = np.asarray(expected)
    array = np.asarray(found)
    assert array.shape == wanted.shape, what
    assert array.dtype.newbyteorder("=") == wanted.dtype, what
    assert isinstance(found, np.ndarray) == isinstance(expected, np.ndarray), what
    if what.endswith("jpeg"):  # decoders round in their own ways
        assert np.abs(array.astype(int) - wanted).max() <= 2, what
    else:
        np.testing.assert_array_equal(array, wanted, what)


def assert_rows(found: list[Any], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert list(row._fields) == list(wanted)
        for name, value in wanted.items():
            assert_same(getattr(row, name), value, f"{wanted['id']}.{name}")
