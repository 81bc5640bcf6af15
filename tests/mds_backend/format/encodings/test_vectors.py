from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.format.encodings.vectors import vectors_to_lists

#: As Spark hands a vector to Arrow.
VECTOR = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def dense(*values: float) -> dict[str, Any]:
    return {"type": 1, "size": None, "indices": None, "values": list(values)}


def sparse(size: int, values: dict[int, float]) -> dict[str, Any]:
    return {
        "type": 0,
        "size": size,
        "indices": sorted(values),
        "values": [values[i] for i in sorted(values)],
    }


def convert(vectors: list[dict[str, Any] | None]) -> list[list[float] | None]:
    return vectors_to_lists(pa.array(vectors, VECTOR)).to_pylist()  # type: ignore[no-any-return]


def test_dense_vectors_are_their_values() -> None:
    assert convert([dense(1.0, 2.0), dense(), dense(3.0)]) == [[1.0, 2.0], [], [3.0]]


def test_sparse_vectors_are_filled_with_zeros() -> None:
    vectors = [sparse(4, {1: 1.0, 3: 2.0}), sparse(2, {}), sparse(0, {})]
    assert convert(vectors) == [[0.0, 1.0, 0.0, 2.0], [0.0, 0.0], []]


def test_null_vectors_stay_null() -> None:
    assert convert([None, dense(1.0), None]) == [None, [1.0], None]
    assert convert([None, sparse(2, {0: 1.0})]) == [None, [1.0, 0.0]]
    assert convert([None]) == [None]


def test_no_vectors_are_no_lists() -> None:
    assert convert([]) == []


def expected(vector: dict[str, Any] | None) -> list[float] | None:
    if vector is None or vector["type"] == 1:
        return None if vector is None else vector["values"]
    given_ = dict(zip(vector["indices"], vector["values"], strict=True))
    return [given_.get(i, 0.0) for i in range(vector["size"])]


numbers = st.floats(allow_nan=False)
vectors = st.one_of(
    st.none(),
    st.lists(numbers, max_size=5).map(lambda values: dense(*values)),
    st.integers(0, 6).flatmap(
        lambda n: st.dictionaries(st.integers(0, max(n - 1, 0)), numbers, max_size=n).map(
            lambda values: sparse(n, values)
        )
    ),
)


@settings(deadline=None)
@given(st.lists(vectors, max_size=8), st.integers(0, 8))
def test_dense_sparse_and_null_vectors_mix(rows: list[dict[str, Any] | None], start: int) -> None:
    assert convert(rows) == [expected(row) for row in rows]
    part = pa.array(rows, VECTOR).slice(start)
    assert vectors_to_lists(part).to_pylist() == [expected(row) for row in rows[start:]]
