from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.read.strips import record_view, strips_of

DTYPES = ["<f4", "<i4", "<i8", "<f8", "<u2", "|u1", "<M8[us]"]
SHAPES: list[tuple[int, ...]] = [(), (), (), (1,), (3,), (2, 2)]

fields = st.lists(st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES)), min_size=1)


def record(*columns: tuple[str, tuple[int, ...]]) -> np.dtype[np.void]:
    return np.dtype([(f"c{n}", dtype, shape) for n, (dtype, shape) in enumerate(columns)])


def plain(*dtypes: str) -> np.dtype[np.void]:
    return record(*((dtype, ()) for dtype in dtypes))


def bases(dtype: np.dtype[np.void], names: list[str]) -> dict[str, np.dtype[Any]]:
    return {name: dtype[name].base for name in names}


@given(fields, st.data())
def test_strips_hold_what_the_columns_of_the_records_hold(
    columns: list[tuple[str, tuple[int, ...]]], data: st.DataObject
) -> None:
    dtype = record(*columns)
    wanted = data.draw(st.lists(st.sampled_from(dtype.names), unique=True, min_size=1))
    content = np.random.default_rng(0).integers(0, 256, 11 * dtype.itemsize, np.uint8)
    records = content.view(f"V{dtype.itemsize}")  # no shard is aligned
    strips = strips_of(dtype, bases(dtype, wanted))
    seen = records.view(record_view(dtype, strips))

    found: dict[str, Any] = {}
    for strip in strips:
        memory = strip.empty(11)
        for start, stop in [(0, 4), (4, 11)]:
            strip.fill(memory, slice(start, stop), seen[start:stop])
        found.update(strip.split(memory))

    assert found.keys() == set(wanted)
    for name, values in found.items():
        expected = records.view(dtype)[name]
        assert values.dtype == expected.dtype
        assert values.shape == expected.shape
        assert values.tobytes() == expected.tobytes()
        assert values.flags.c_contiguous
        assert values.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "wanted", "expected"),
    [
        (plain("<f4", "<i4", "<u4"), ["c0", "c1", "c2"], [["c0", "c1", "c2"]]),
        (plain("<f4", "<i8", "<i4"), ["c0", "c1", "c2"], [["c0"], ["c1"], ["c2"]]),
        (plain("<f4", "<i8", "<i8"), ["c2", "c1", "c0"], [["c0"], ["c1", "c2"]]),
        (plain("<f4", "<f4", "<f4"), ["c0", "c2"], [["c0"], ["c2"]]),
        (record(("<f4", ()), ("<f4", (2,)), ("<f4", ())), ["c0", "c1"], [["c0"], ["c1"]]),
        (record(("<f4", (1,)), ("<f4", (1,))), ["c0", "c1"], [["c0"], ["c1"]]),
    ],
)
def test_neighbours_with_values_of_one_size_are_one_strip(
    dtype: np.dtype[np.void], wanted: list[str], expected: list[list[str]]
) -> None:
    strips = strips_of(dtype, bases(dtype, wanted))
    assert [[name for name, _ in strip.columns] for strip in strips] == expected


def test_values_may_be_seen_as_another_dtype_of_their_size() -> None:
    dtype = plain("<i8", "|u1", "|u1")
    wanted = {
        "c0": np.dtype("datetime64[us]"),
        "c1": np.dtype(np.bool_),
        "c2": np.dtype(np.uint8),
    }
    records = np.array([(5, 1, 7), (-1, 0, 8)], dtype)
    strips = strips_of(dtype, wanted)
    assert len(strips) == 2
    found: dict[str, Any] = {}
    for strip in strips:
        memory = strip.empty(2)
        strip.fill(memory, slice(0, 2), records.view(record_view(dtype, strips)))
        found.update(strip.split(memory))
    assert {name: values.dtype for name, values in found.items()} == wanted
    assert found["c0"].astype(np.int64).tolist() == [5, -1]
    assert found["c1"].tolist() == [True, False]
    assert found["c2"].tolist() == [7, 8]
