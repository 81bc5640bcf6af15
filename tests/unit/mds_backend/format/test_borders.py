"""Limits of what the format accepts: the last value, and the first one beyond it.

The values that shards store are in `tests/contract/test_borders.py`.
"""

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.borders import SIZES
from tests.kit.small_datasets import Huge, array_of, plan

from mdstorm_backend.errors import MDStormError
from mdstorm_backend.format.compression import (
    check_compression,
    compress,
    decompress,
    decompress_unsized,
    levels_of,
)
from mdstorm_backend.format.encodings.arrays import MAX_DIMENSIONS
from mdstorm_backend.format.encodings.binary import value_size
from mdstorm_backend.format.encodings.image_memory import check_size
from mdstorm_backend.format.encodings.images import join_images
from mdstorm_backend.format.encodings.numbers import fit_numbers
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.index import (
    check_basename,
    check_count,
    check_depth,
    check_sizes,
    shown,
)
from mdstorm_backend.format.layout import shown_json
from mdstorm_backend.format.values.arrow_types import SparkType
from mdstorm_backend.format.values.batch import as_arrow, common_type
from mdstorm_backend.format.values.nested_lists import lists_of_shapes
from mdstorm_backend.format.values.python_objects import beyond_nanoseconds, check_years


def check_bytes(size: int) -> None:
    """Check the sizes of two columns, which together take `size` bytes."""
    check_sizes([size - 1, 1], ("a", "b"), ("bytes", "bytes"))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


#: What is called with a value → the values at the limits, and those beyond them.
LIMITS: dict[str, tuple[Callable[[Any], Any], list[Any], list[Any]]] = {
    "count": (lambda count: check_count(count, "a", 256), [0, 1, 255, 256], [-1, 257]),
    "bytes of a sample": (check_bytes, [2, 2**31 - 1], [2**31]),
    "name of a file": (
        lambda size: check_basename("a" * size, "index.json"),
        [1, 254, 255],
        [0, 256],
    ),
    "name of a file in bytes": (
        lambda size: check_basename("a/" + "é" * (size // 2) + "a" * (size % 2), "index.json"),
        [254, 255],
        [256],
    ),
    "path of a file": (
        lambda size: check_basename("a/" * ((size - 1) // 2) + "a" * (2 - size % 2), "index.json"),
        [1023, 1024],
        [1025],
    ),
    "depth of an index": (lambda depth: check_depth(nested(depth), "it"), [0, 199], [200]),
    "pixels of an image": (lambda width: check_size(width, 2, 8, 512), [0, 255, 256], [257]),
    "size of a user's values": (
        lambda size: value_size(SimpleNamespace(encode=bytes, decode=bytes, size=size)),
        [1, 2],
        [0, -1],
    ),
    "bytes of an array": (
        lambda size: parse_encoding(f"ndarray:uint8:{size}"),
        [1, 2**31 - 1],
        [0, 2**31],
    ),
    "dimensions of an array": (
        lambda depth: parse_encoding("ndarray").encode(np.ones([1] * depth, np.uint8)),
        [1, min(63, MAX_DIMENSIONS)],
        [0, *range(64, MAX_DIMENSIONS + 1)],
    ),
    "values of a list": (
        lambda count: lists_of_shapes(pa.nulls(count), np.array([[count]])),
        [0, 1, 2**31 - 1],
        [2**31],
    ),
    "digits of two columns": (
        lambda scale: common_type(pa.decimal128(20, 0), pa.decimal128(20, scale)),
        [0, 17, 18],
        [19],
    ),
    "days": (
        lambda day: check_years(pa.array(np.array([day], "datetime64[D]"))),
        ["0001-01-01", "9999-12-31"],
        ["0000-12-31", "10000-01-01"],
    ),
    "times": (
        lambda time: check_years(pa.array(np.array([time], "datetime64[us]"))),
        ["0001-01-01", "9999-12-31T23:59:59.999999"],
        ["0000-12-31T23:59:59.999999", "10000-01-01"],
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_last_value_is_accepted_and_next_one_raises_error(name: str) -> None:
    call, accepted, refused = LIMITS[name]
    for value in accepted:
        call(value)
    for value in refused:
        with pytest.raises((ValueError, TypeError, OverflowError)):
            call(value)


@pytest.mark.parametrize("step", [1, -1])
def test_nanoseconds_hold_times_up_to_their_last_microsecond(step: int) -> None:
    last = step * ((2**63 - 1) // 1000)
    assert beyond_nanoseconds(np.array([0, last], "datetime64[us]")) is None
    times = np.array([0, last + step], "datetime64[us]")
    assert beyond_nanoseconds(times) == times[1]


def test_arrays_of_32_dimensions_are_stored_as_arrays_and_deeper_ones_as_json() -> None:
    type_: SparkType = "integer"
    found = []
    for _ in range(33):
        type_ = array_of(type_)
        found.append(plan({"v": type_})["v"].encoding)
    assert found == ["ndarray:int32"] * 32 + ["json"]


@pytest.mark.parametrize("name", ["zstd", "gz", "bz2", "br", "snappy"])
def test_files_of_any_size_are_decompressed_and_those_beyond_the_limit_refused(name: str) -> None:
    """Snappy states the size with seven bits in each byte."""
    for size in sorted({*SIZES, *(1 << bits for bits in (14, 21)), 16_383, 16_385}):
        data = bytes(size)
        packed = compress(name, [data])
        assert bytes(decompress(name, packed, size)) == data
        assert bytes(decompress_unsized(name, packed, size)) == data
        if size:
            with pytest.raises(ValueError, match=f"{size - 1} |{size} "):
                decompress_unsized(name, packed, size - 1)


@pytest.mark.parametrize("name", ["zstd", "gz", "bz2", "br", "snappy"])
def test_levels_are_those_that_are_accepted(name: str) -> None:
    accepted = []
    for level in range(30):
        with suppress(MDStormError):
            check_compression(f"{name}:{level}")
            accepted.append(level)
    assert levels_of(name) == accepted


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_floats_are_stored_as_integers_up_to_the_last_that_fits(dtype: str) -> None:
    limits = np.iinfo(np.dtype(dtype))
    # The floats next to the limits, of which those of 64 bits are far apart.
    first, beyond = float(limits.min), float(limits.max + 1)
    last = min(float(np.nextafter(beyond, 0)), float(limits.max)) // 1
    found = fit_numbers(pa.array([first, last]), np.dtype(dtype))
    assert found.tolist() == [int(first), int(last)]
    for number in (np.nextafter(first, -np.inf) // 1, beyond):
        with pytest.raises(OverflowError, match=f"{dtype} ranges from"):
            fit_numbers(pa.array([last, number]), np.dtype(dtype))


def test_image_of_4_gib_in_a_list_raises_error() -> None:
    with pytest.raises(OverflowError, match="an image takes 4 GiB or more"):
        join_images([Huge()])


def test_array_has_as_many_values_as_a_list_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm_backend.format.values.batch.INT32_MAX", 6)
    assert as_arrow(np.zeros((2, 3))).to_pylist() == [[0, 0, 0]] * 2
    with pytest.raises(ValueError, match="7 rows of 1 values takes more than 2 GiB"):
        as_arrow(np.zeros((7, 1)))


@pytest.mark.parametrize(("show", "most"), [(shown, 80), (shown_json, 200)])
def test_longer_text_than_the_longest_is_cut(show: Callable[[object], str], most: int) -> None:
    text = "a" * (most - 2)
    assert show(text) in (f"'{text}'", f'"{text}"')
    assert show(text + "a").endswith("a…")
