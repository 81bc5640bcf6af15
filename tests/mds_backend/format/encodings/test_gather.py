from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mds_backend.format.encodings.spread import as_bytes, spread

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.encodings import gather
from mdstorm_backend.format.encodings.gather import gather_binary, gather_fixed

NO_POSITIONS = np.empty(0, np.int64)


def test_fixed_size_values_are_gathered_from_any_byte() -> None:
    data = as_bytes(b"x" + struct.pack("<h", -5) + b"y" + struct.pack("<h", 300))
    found = gather_fixed(data, np.array([1, 4]), np.dtype("<i2"))
    assert found.tolist() == [-5, 300]
    assert found.flags.writeable


def test_several_values_a_row_are_a_matrix() -> None:
    data = as_bytes(struct.pack("<6h", *range(6)))
    assert gather_fixed(data, np.array([0, 6]), np.dtype("<i2"), 3).tolist() == [
        [0, 1, 2],
        [3, 4, 5],
    ]


def test_no_rows_have_the_shape_of_some_rows() -> None:
    data = as_bytes(b"")
    assert gather_fixed(data, NO_POSITIONS, np.dtype("<i2")).shape == (0,)
    assert gather_fixed(data, NO_POSITIONS, np.dtype("<i2"), 3).shape == (0, 3)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=6), max_size=8), st.binary(max_size=3))
def test_byte_strings_are_copied_out_from_between_gaps(values: list[bytes], gap: bytes) -> None:
    data, starts, lengths = spread(values, gap)
    assert gather_binary(data, starts, lengths, pa.binary()).to_pylist() == values


def test_strings_are_text() -> None:
    data, starts, lengths = spread(["é".encode(), b"", b"b"])
    found = gather_binary(data, starts, lengths, pa.string())
    assert found.type == pa.string()
    assert found.to_pylist() == ["é", "", "b"]


def test_files_beyond_two_gigabytes_take_wider_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "_INT32_MAX", 3)
    for type_ in (pa.binary(), pa.string()):
        found = gather_binary(*spread([b"ab", b"", b"c"]), type_)
        assert found.type == type_
        assert found.cast(pa.binary()).to_pylist() == [b"ab", b"", b"c"]


def test_more_bytes_than_an_array_holds_are_no_damage() -> None:
    data = np.zeros(3 << 30, np.uint8)  # takes no memory, as nobody touches it
    starts, lengths = np.arange(3) << 30, np.full(3, 1 << 30)
    with pytest.raises(InvalidArgumentError, match=r"more than 2 GiB .* smaller batch_size"):
        gather_binary(data, starts, lengths, pa.binary())
