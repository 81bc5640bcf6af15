import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.schema import Column, Origin
from mdstorm_backend.read.late import LateDecoder, decode_pixels, object_decoder

URL = "file:///data"


def column(encoding: str) -> Column:
    return Column("x", encoding, origin=Origin(URL, allow_unsafe_types=True))


def several(*images: bytes) -> bytes:
    return struct.pack(f"<{2 + len(images)}I", 0, len(images), *map(len, images)) + b"".join(images)


@pytest.mark.parametrize("encoding", ["jpeg_array", "jpegarray"])
def test_an_array_of_jpegs_may_be_empty(encoding: str) -> None:
    assert LateDecoder(column(encoding))(pa.array([bytes(4)])).tolist() == [[]]


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("png", b""),
        ("jpeg", b"\xff\xd8\xff"),
        ("pil", b"\1"),
        ("list[png]", b""),
        ("list[png]", several(b"no png")),
        ("jpeg_array", b"\1\0\0\0"),
        ("pkl", b""),
        ("pkl", b"cno_such_module\nclass\n."),
        ("json", "{"),
        ("json", "[" * 100_000),
        ("str_decimal", "x"),
    ],
)
def test_what_cannot_be_decoded_is_named(encoding: str, value: bytes | str) -> None:
    late = column(encoding)
    for decode in (
        lambda: object_decoder(late.parsed_encoding, late, URL)(value),
        lambda: LateDecoder(late)(pa.array([value, value])),
    ):
        with pytest.raises(
            CorruptDatasetError, match=r"column 'x' of file:///data .* as "
        ) as caught:
            decode()
        assert caught.value.url == URL


def decode(value: bytes, place: np.ndarray | None) -> np.ndarray:
    """Decode pixels of one row: the value itself, into the place if that fits."""
    pixels = np.frombuffer(value, np.uint8)[None]
    if place is None or place.shape != pixels.shape:
        return pixels.copy()
    place[:] = pixels
    return place


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("values", [[b"ab", b"c", b"de"], [b"c", b"ab", b"ab"], [None, b"a"]])
def test_images_of_several_shapes_are_objects(workers: int, values: list[Any]) -> None:
    found = decode_pixels(decode, values, workers)
    assert found.dtype == object
    assert [None if p is None else p.tobytes() for p in found] == values
    assert all(pixels is None or pixels.flags.owndata for pixels in found)


def test_memory_is_not_asked_for_on_the_word_of_one_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm_backend.read.late._MAX_STACK_BYTES", 5)
    found = decode_pixels(decode, [b"ab", b"cd", b"ef"], 2)
    assert found.dtype == object  # and no array for all of them
    assert [pixels.tobytes() for pixels in found] == [b"ab", b"cd", b"ef"]
