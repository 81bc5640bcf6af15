import struct

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedEncodingError
from mdstorm_backend.format.encodings.arrays import decode_arrays
from mdstorm_backend.format.values.batch import gather_binary

INT16 = np.dtype("<i2")


def spread(values: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lay values out with gaps between them: the bytes, the starts, the lengths."""
    lengths = np.array([len(value) for value in values], np.int64)
    starts = np.cumsum(lengths + 2) - lengths
    return np.frombuffer(b"".join(b"--" + value for value in values), np.uint8), starts, lengths


def encoded(array: np.ndarray, code: int | None = None) -> bytes:
    """Encode an array as the format describes it, by hand."""
    start = b"" if code is None else bytes([code])
    shape = struct.pack(f"<{array.ndim}B", *array.shape)
    little = array.astype(array.dtype.newbyteorder("<"))
    return start + bytes([array.ndim << 2]) + shape + little.tobytes()


HUGE = struct.pack("<Q", 1 << 62)

#: Values of int16 arrays that are none.
DAMAGED = {
    "nothing": b"",
    "no length": b"\x04",
    "cut length": b"\x05\x01",
    "header beyond the value": b"\x07\x01\x00",
    "half an element": b"\x04\x01\x00\x00\x00",
    "too few elements": b"\x04\x02\x00\x00",
    "too many elements": b"\x04\x01\x00\x00\x00\x00",
    "more than memory": b"\x07" + HUGE,
    "more than memory, 2 dimensions": b"\x0b" + HUGE + HUGE,
    "nothing times more than memory": b"\x0b" + bytes(8) + b"\xff" * 8,
    "a scalar of no bytes": b"\x00",
    "63 dimensions": b"\xfc" + b"\x01" * 63 + b"\x00",
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
def test_a_header_that_contradicts_its_value_is_an_error(value: bytes) -> None:
    for values in ([value], [value, encoded(np.array([1], np.int16))]):
        with pytest.raises(ValueError):  # noqa: PT011  # NumPy says some of them
            decode_arrays(*spread(values), INT16)
        with pytest.raises(ValueError):  # noqa: PT011
            decode_arrays(*spread([b"\x11" + v for v in values]), None)


@pytest.mark.parametrize("code", [0, 7, 10, 67, 255])
def test_an_unknown_dtype_code_is_an_error(code: int) -> None:
    with pytest.raises(ValueError, match=f"unknown dtype code {code}"):
        decode_arrays(*spread([encoded(np.array([1], np.int16), code)]), None)


def test_arrays_without_elements_keep_their_shapes() -> None:
    for shape in ((0, 3), (2, 0), (2, 0, 3)):
        arrays = [np.ones(one, np.int16) for one in (shape, (2,) * len(shape))]
        found = decode_arrays(*spread([encoded(one) for one in arrays]), INT16)
        values = found if isinstance(found, np.ndarray) else found.to_pylist()
        assert [np.shape(value) for value in values] == [one.shape for one in arrays]


def test_arrays_may_have_as_many_dimensions_as_numpy_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mdstorm_backend.format.encodings.arrays._MAX_DIMENSIONS", 3)
    values = [encoded(np.ones([1] * dimensions, np.int16)) for dimensions in (3, 4)]
    assert decode_arrays(*spread(values[:1]), INT16).to_pylist() == [[[[1]]]]
    with pytest.raises(UnsupportedEncodingError, match=r"4 dimensions.*Install NumPy 2"):
        decode_arrays(*spread(values), INT16)


def test_files_beyond_two_gigabytes_take_wider_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm_backend.format.values.batch._INT32_MAX", 3)
    for type_ in (pa.binary(), pa.string()):
        found = gather_binary(*spread([b"ab", b"", b"c"]), type_)
        assert found.type == type_
        assert found.cast(pa.binary()).to_pylist() == [b"ab", b"", b"c"]


def test_more_bytes_than_an_array_holds_are_no_damage() -> None:
    data = np.zeros(3 << 30, np.uint8)  # takes no memory, as nobody touches it
    starts, lengths = np.arange(3) << 30, np.full(3, 1 << 30)
    with pytest.raises(InvalidArgumentError, match=r"more than 2 GiB .* smaller batch_size"):
        gather_binary(data, starts, lengths, pa.binary())
