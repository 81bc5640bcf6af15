from __future__ import annotations

import io
import json
import pickle
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from mdstorm_backend.errors import CorruptDatasetError, UnsafeTypeError
from mdstorm_backend.format.schema import Column, Origin
from mdstorm_backend.read.late import LateDecoder, check_safe

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


@pytest.mark.parametrize("workers", [None, 1, 2])
def test_images_of_one_shape_are_stacked(workers: int | None) -> None:
    found = LateDecoder(column("png"))(binary(png(3, 2, 5), png(3, 2, 6)), workers=workers)
    assert found.dtype == np.uint8
    assert found[:, 0, 0].tolist() == [5, 6]
    assert found.shape == (2, 2, 3)


def test_images_of_several_shapes_and_missing_ones_are_objects() -> None:
    found = LateDecoder(column("png"))(binary(png(3, 2), None, png(2, 2)))
    assert found.dtype == object
    assert [None if p is None else p.shape for p in found] == [(2, 3), None, (2, 2)]


def test_images_may_be_had_as_pillow_images() -> None:
    found = LateDecoder(column("png"))(binary(png(3, 2), None), as_="object")
    assert [getattr(image, "size", None) for image in found] == [(3, 2), None]


def test_lists_of_images_are_lists() -> None:
    values = binary(several(png(3, 2), png(1, 1)), several(), None)
    arrays = LateDecoder(column("list[png]"))(values)
    assert [v if v is None else [a.shape for a in v] for v in arrays] == [
        [(2, 3), (1, 1)],
        [],
        None,
    ]
    images = LateDecoder(column("list[png]"))(values, as_="object")
    assert [image.size for image in images[0]] == [(3, 2), (1, 1)]


def test_an_array_of_jpegs_may_be_empty() -> None:
    assert LateDecoder(column("jpeg_array"))(binary(bytes(4))).tolist() == [[]]
    assert LateDecoder(column("jpegarray"))(binary(bytes(4))).tolist() == [[]]


@pytest.mark.parametrize(
    ("encoding", "values", "encode"),
    [
        ("json", [{"a": [1, None]}, [], None, "é", 1.5], json.dumps),
        ("str_decimal", [Decimal("1.50"), Decimal("1E+5")], str),
    ],
)
def test_texts_become_what_they_stand_for(encoding: str, values: list[Any], encode: Any) -> None:
    texts = pa.array([*map(encode, values), None], pa.string())
    found = LateDecoder(column(encoding))(texts)
    assert list(map(repr, found)) == [*map(repr, values), "None"]


def test_pickles_become_their_objects_if_allowed() -> None:
    values = binary(pickle.dumps({"a": (1, 2)}), pickle.dumps(None), None)
    assert LateDecoder(column("pkl"))(values).tolist() == [{"a": (1, 2)}, None, None]


def test_pickles_are_refused_unless_allowed(tmp_path: Path) -> None:
    with pytest.raises(
        UnsafeTypeError, match=r"'x' of file:///data contains an unsafe type"
    ) as caught:
        LateDecoder(column("pkl", allowed=False))
    assert isinstance(caught.value, ValueError)
    assert "allow_unsafe_types=True" in str(caught.value)
    check_safe(column("png", allowed=False))


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
@pytest.mark.parametrize("form", ["array", "object"])
def test_what_cannot_be_decoded_is_named(encoding: str, value: bytes, form: Any) -> None:
    with pytest.raises(CorruptDatasetError, match=r"column 'x' of file:///data .* as ") as caught:
        LateDecoder(column(encoding))(binary(value, value), as_=form)
    assert caught.value.url == URL


def test_texts_that_cannot_be_decoded_are_named() -> None:
    for encoding, text in (("json", "{"), ("json", "[" * 100_000), ("str_decimal", "x")):
        with pytest.raises(CorruptDatasetError, match="column 'x' of file:///data"):
            LateDecoder(column(encoding))(pa.array([text]))
