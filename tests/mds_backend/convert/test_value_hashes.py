"""Hashes of values are equal for equal values, and for no others."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.convert.row_hashes import hash_values

NESTED = pa.struct(
    [("a", pa.list_(pa.string())), ("b", pa.map_(pa.string(), pa.list_(pa.float64())))]
)
INTEGERS = st.integers(-3, 3)
TEXTS = st.text("ab", max_size=3) | st.sampled_from(["x" * 255, "x" * 256, "x" * 257])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("inf")])
VALUES = {
    pa.int64(): INTEGERS,
    pa.string(): TEXTS,
    pa.binary(): TEXTS.map(str.encode),
    pa.list_(pa.float64()): st.lists(st.none() | FLOATS, max_size=3),
    pa.list_(pa.int8()): st.lists(INTEGERS, max_size=3),
    pa.list_(pa.string()): st.lists(st.none() | TEXTS, max_size=3),
    pa.decimal128(9, 2): st.decimals(-3, 3, places=2),
    NESTED: st.fixed_dictionaries(
        {
            "a": st.none() | st.lists(TEXTS, max_size=2),
            "b": st.lists(st.tuples(TEXTS, st.lists(FLOATS, max_size=2)), max_size=2),
        }
    ),
}


def keys(values: pa.Array) -> list[tuple[int, int]]:
    first, second = hash_values(values).tolist()
    return list(zip(first, second, strict=True))


@pytest.mark.parametrize("type_", VALUES, ids=str)
@given(data=st.data())
def test_hashes_are_equal_where_values_are(type_: pa.DataType, data: Any) -> None:
    found = data.draw(st.lists(st.none() | VALUES[type_], min_size=1, max_size=12))
    values = pa.array(found, type_)
    texts = [repr(value) for value in values.to_pylist()]
    for place, key in enumerate(keys(values)):
        for other, other_key in enumerate(keys(values)):
            assert (key == other_key) == (texts[place] == texts[other])


def test_garbage_below_nulls_does_not_matter() -> None:
    validity = pa.array([True, False]).buffers()[1]
    for numbers in ([1, 2], [1, 3]):
        data = pa.py_buffer(np.array(numbers, np.int64))
        values = pa.Array.from_buffers(pa.int64(), 2, [validity, data])
        assert keys(values) == keys(pa.array([1, None]))
        inside = pa.ListArray.from_arrays([0, 2], values)
        assert keys(inside) == keys(pa.array([[1, None]]))


def test_the_halves_are_independent_and_spread() -> None:
    hashes = hash_values(pa.array(np.arange(100_000)))
    assert [len(np.unique(half)) for half in hashes] == [100_000] * 2
    assert not (hashes[0] == hashes[1]).any()
    for half in hashes:
        counts = np.bincount((half >> np.uint64(56)).astype(int), minlength=256)
        assert counts.min() > 250
        assert counts.max() < 550
