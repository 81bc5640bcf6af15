"""Datasets that can be damaged, and golden datasets that can be copied."""

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from tests.kit.small_datasets import array_of, struct_of

#: Four rows that contain nulls.
FIELDS = {"n": "long", "text": "string", "list": array_of("long"), "thing": struct_of(a="long")}
ROWS = {
    "n": [1, None, 3, 4],
    "text": ["ab", "c", None, ""],
    "list": [[1], [], [2, None], None],
    "thing": [{"a": 1}, None, {"a": None}, {"a": 2}],
}

#: Columns whose values have a fixed and a variable size, and three rows that contain nulls.
FIXED = {"number": "long", "flag": "boolean", "pair": array_of("integer")}
VARIABLE = {
    "text": "string",
    "bytes": "binary",
    "list": array_of("integer"),
    "price": "decimal(10,2)",
    "words": array_of("string"),
    "thing": struct_of(a="date", b="binary"),
}
VALUES = {
    "number": [1, None, 3],
    "flag": [True, False, None],
    "pair": [[1, None], None, [3, 4]],
    "text": ["one", None, "three"],
    "bytes": [b"1", b"", None],
    "list": [[1], [], [2, None]],
    "price": [Decimal("1.50"), None, Decimal("-3.00")],
    "words": [["a", None], None, []],
    "thing": [{"a": 1, "b": b"x"}, None, {"a": None, "b": b""}],
}

GOLDEN = Path(__file__).parents[1] / "contract" / "interop" / "golden"
#: NumPy 1 does not support this dataset's array with 63 dimensions.
_TOO_DEEP = {"ndarray_dynamic"} if np.lib.NumpyVersion(np.__version__) < "2.0.0" else set()
GOLDEN_NAMES = sorted({index.parent.name for index in GOLDEN.glob("*/index.json")} - _TOO_DEEP)


def copy_of(name: str, directory: Path) -> Path:
    """Copy a dataset written by MosaicML Streaming."""
    return Path(shutil.copytree(GOLDEN / name, directory / name))


def change_index(directory: Path, change: Callable[[Any], object]) -> None:
    """Apply `change` to the parsed index, and write the result."""
    file = directory / "index.json"
    value = json.loads(file.read_bytes())
    change(value)
    file.write_text(json.dumps(value, sort_keys=True))


def rewrite(file: Path, data: bytes) -> None:
    """Replace a file with a new one, because the old one may still be mapped."""
    file.unlink()
    file.write_bytes(data)


def with_words(data: bytes, start: int, *words: int) -> bytes:
    """Replace the four-byte words that begin at byte `start`."""
    encoded = np.array(words, "<u4").tobytes()
    return data[:start] + encoded + data[start + len(encoded) :]
