from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.read.strips import record_view, strips_of

DTYPES = ["<f4", "<i4", "<i8", "<f8", "<u2", "|u1", "<M8[us]"]
SHAPES: list[tuple[int, ...]] = [(), (), (), (1,), (3,), (2, 2)]

fields = st.lists(st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES)), min_size=1)


def record(*columns: tuple[str, tuple[int, ...]]) -> np.dtype[np.void]:
    return np.dtype([(f"c{n}", dtype, shape) for n, (dtype, shape) in enumerate(columns)])


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
