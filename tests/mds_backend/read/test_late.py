import io
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.schema import Column, Origin
from mdstorm_backend.read.late import LateDecoder, decode_pixels, object_decoder

URL = "file:///data"


def column(encoding: str, *, allowed: bool = True) -> Column:
    return Column("x", encoding, origin=Origin(URL, allowed))


def png(width: int, height: int, grey: int = 0) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (width, height), grey).save(stream, "PNG")
    return stream.getvalue()


def several(*images: bytes) -> bytes:
    return struct.pack(f"<{2 + len(images)}I", 0, len(images), *map(len, images)) + b"".join(images)


def binary(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def alone(column: Column, value: bytes) -> Any:
    return object_decoder(column.parsed_encoding, column, URL)(value)


def test_images_may_be_had_as_pillow_images() -> None:
    assert alone(column("png"), png(3, 2)).size == (3, 2)


def test_an_array_of_jpegs_may_be_empty() -> None:
    assert LateDecoder(column("jpeg_array"))(binary(bytes(4))).tolist() == [[]]
    assert LateDecoder(column("jpegarray"))(binary(bytes(4))).tolist() == [[]]


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
    ],
)
def test_what_cannot_be_decoded_is_named(encoding: str, value: bytes) -> None:
    with pytest.raises(CorruptDatasetError, match=r"column 'x' of file:///data .* as ") as caught:
        alone(column(encoding), value)
    assert caught.value.url == URL
    with pytest.raises(CorruptDatasetError, match=r"column 'x' of file:///data .* as "):
        LateDecoder(column(encoding))(binary(value, value))


def test_texts_that_cannot_be_decoded_are_named() -> None:
    for encoding, text in (("json", "{"), ("json", "[" * 100_000), ("str_decimal", "x")):
        with pytest.raises(CorruptDatasetError, match="column 'x' of file:///data"):
            LateDecoder(column(encoding))(pa.array([text]))


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
