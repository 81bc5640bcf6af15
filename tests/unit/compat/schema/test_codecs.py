"""Codecs: accepted values, encoded bytes and decoded values."""

import io
import sys
import tracemalloc
import zipfile
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from mdstorm.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    DataframeColumnCodec,
    NdarrayCodec,
    ScalarCodec,
)
from mdstorm.errors import (
    ArgumentTypeError,
    EncodingError,
    EncodingTypeError,
    InvalidArgumentError,
    MissingDependencyError,
)
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row

types = pytest.importorskip("pyspark.sql.types")

PIXELS = np.random.default_rng(0).integers(0, 255, (4, 5, 3), np.uint8)


def field(dtype: Any, shape: tuple[int | None, ...], codec: Any) -> UnischemaField:
    return UnischemaField("f", dtype, shape, codec)


@pytest.mark.parametrize(
    ("spark_type", "value", "encoded"),
    [
        (types.ByteType(), 1.9, 1),
        (types.LongType(), "3", 3),
        (types.IntegerType(), np.array(3), 3),
        (types.ShortType(), True, 1),
        (types.DoubleType(), "2.5", 2.5),
        (types.TimestampType(), datetime(2020, 1, 1), datetime(2020, 1, 1)),
        (types.BinaryType(), b"ab", b"ab"),
    ],
)
def test_scalars_are_encoded_as_spark_values(spark_type: Any, value: Any, encoded: Any) -> None:
    codec = ScalarCodec(spark_type)
    found = codec.encode(field(np.int64, (), codec), value)
    assert found == encoded
    assert type(found) is type(encoded)
    assert codec.spark_dtype() is spark_type


@pytest.mark.parametrize(
    ("dtype", "spark_type"),
    [(np.float32, types.FloatType()), (np.dtype(np.int64), types.LongType())],
)
def test_numpy_type_of_a_scalar_stands_for_its_spark_type(dtype: Any, spark_type: Any) -> None:
    codec = ScalarCodec(dtype)
    schema = Unischema("schema", [UnischemaField("f", dtype, (), codec, False)])
    assert codec.spark_dtype() == spark_type == schema.as_spark_schema()["f"].dataType
    assert dict_to_spark_row(schema, {"f": np.float32(3)})["f"] == 3
    with pytest.raises(ArgumentTypeError, match="takes a Spark type"):
        ScalarCodec(np.complex64)


@pytest.mark.parametrize(
    ("spark_type", "value", "message", "error"),
    [
        (types.LongType(), [1], "Expected a scalar as a value for field 'f'", TypeError),
        (types.StringType(), b"x", "Expected a scalar as a value for field 'f'", TypeError),
        (types.StringType(), 3, "Expected a string value for field f. Got type", ValueError),
        (types.LongType(), None, "Field 'f' of Spark type LongType cannot hold None", TypeError),
        (types.LongType(), "x", "Field 'f' of Spark type LongType cannot hold 'x'", ValueError),
        (types.LongType(), np.inf, "Field 'f' of Spark type LongType cannot hold inf", ValueError),
    ],
)
def test_unsupported_scalar_raises_error(
    spark_type: Any, value: Any, message: str, error: type[Exception]
) -> None:
    codec = ScalarCodec(spark_type)
    with pytest.raises(EncodingError, match=message) as caught:
        codec.encode(field(np.int64, (), codec), value)
    assert isinstance(caught.value, error)
    assert caught.value.column == "f"


def test_scalar_codec_for_field_with_shape_raises_error() -> None:
    with pytest.raises(InvalidArgumentError, match="must be an empty tuple"):
        ScalarCodec(types.LongType()).encode(field(np.int64, (2,), None), 1)


@pytest.mark.parametrize(
    ("dtype", "value", "decoded"),
    [
        (np.int64, 3, np.int64(3)),
        (np.dtype("int16"), 3, np.int16(3)),
        (np.str_, "a", np.str_("a")),
        (Decimal, "1.50", Decimal("1.50")),
        (np.datetime64, datetime(2020, 1, 1, 3), np.datetime64("2020-01-01T03:00:00.000000")),
    ],
)
def test_scalars_are_decoded_to_the_field_type(dtype: Any, value: Any, decoded: Any) -> None:
    found = ScalarCodec(types.StringType()).decode(field(dtype, (), None), value)
    assert found == decoded
    assert type(found) is type(decoded)


@pytest.mark.parametrize("codec", [NdarrayCodec(), CompressedNdarrayCodec()])
@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
        *(np.zeros((2, 0), np.uint8), np.array(5, np.int64), np.arange(3, dtype=">f4")),
        *(np.array(["a", "äöü"]), np.array([b"x", b"yz"]), np.array(["2020-01-01"], "M8[D]")),
    ],
)
def test_arrays_read_back_unchanged(codec: DataframeColumnCodec, array: Any) -> None:
    free: tuple[int | None, ...] = tuple(None for _ in array.shape)
    declared = field(array.dtype.type, free, codec)
    encoded = codec.encode(declared, array)
    assert type(encoded) is bytearray
    found = codec.decode(declared, bytes(encoded))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert found.flags.writeable


@pytest.mark.parametrize(
    "codec", [NdarrayCodec(), CompressedNdarrayCodec(), CompressedImageCodec()]
)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 3)), "Unexpected type of f feature. Expected .*float32.*. Got float64"),
        (np.zeros((3, 3), np.float32), r"Unexpected dimensions of f feature. Expected \(2, None\)"),
        (np.zeros(2, np.float32), r"Got \(2,\)"),
        ([[1, 2]], "Unexpected type of f feature. Expected ndarray of .* Got <class 'list'>"),
    ],
)
def test_array_with_wrong_type_or_shape_raises_error(codec: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codec.encode(field(np.float32, (2, None), codec), value)


def test_object_arrays_raise_error_instead_of_being_pickled() -> None:
    for codec in (NdarrayCodec(), CompressedNdarrayCodec()):
        with pytest.raises(EncodingTypeError, match="which no reader loads"):
            codec.encode(field(np.object_, (None,), codec), np.array([None, 1]))
    file = io.BytesIO()
    np.save(file, np.array([None]), allow_pickle=True)
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        NdarrayCodec().decode(field(np.object_, (None,), None), file.getvalue())


@pytest.mark.parametrize(
    "codec", [NdarrayCodec(), CompressedNdarrayCodec(), CompressedImageCodec()]
)
@pytest.mark.parametrize("data", [b"", b"garbage", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_invalid_array_bytes_raise_error(codec: Any, data: bytes) -> None:
    with pytest.raises(EncodingError):
        codec.decode(field(np.uint8, (None,), codec), data)


def npy_of(shape: tuple[int, ...], dtype: Any = np.uint8) -> bytes:
    file = io.BytesIO()
    described = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(
        file, {"descr": described, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def test_header_that_declares_a_huge_array_raises_error() -> None:
    file = npy_of((1 << 40,)) + bytes(100)
    with pytest.raises(EncodingError, match="the data is shorter"):
        NdarrayCodec().decode(field(np.uint8, (None,), None), file)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1 << 25,), r"\(33554432,\), but the schema declares \(4,\)"),
        ((4,), "its checksum is wrong"),
    ],
)
def test_archive_is_decompressed_only_up_to_its_declared_size(
    shape: tuple[int, ...], message: str
) -> None:
    codec, file = CompressedNdarrayCodec(), io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("arr.npy", "w") as member,
    ):
        member.write(npy_of(shape))
        for _ in range(1 << 5):
            member.write(bytes(1 << 20))
    stored = bytearray(file.getvalue())
    stored[6] = 0  # as in numpy.savez archives, no checksum follows the data
    tracemalloc.start()
    try:
        with pytest.raises(EncodingError, match=message):
            codec.decode(field(np.uint8, (4,), codec), bytes(stored))
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "image",
    [
        *(PIXELS, PIXELS[..., 0], PIXELS[:, ::2], np.full((1, 1, 3), 65535, np.uint16)),
        *(PIXELS.astype(np.uint16) * 257, PIXELS[..., 0].astype(np.uint16) * 200),
    ],
)
def test_png_images_read_back_unchanged(image: Any) -> None:
    codec = CompressedImageCodec("png")
    free: tuple[int | None, ...] = tuple(None for _ in image.shape)
    declared = field(image.dtype.type, free, codec)
    encoded = codec.encode(declared, image)
    assert encoded.startswith(b"\x89PNG")
    found = codec.decode(declared, encoded)
    np.testing.assert_array_equal(found, image)
    assert found.dtype == image.dtype
    assert found.flags.c_contiguous
    assert found.flags.writeable


def test_image_size_limit_does_not_apply_to_fixed_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm.codecs.MAX_IMAGE_BYTES", PIXELS.nbytes - 1)
    codec = CompressedImageCodec("png")
    stated, free = field(np.uint8, (4, 5, 3), codec), field(np.uint8, (None, None, 3), codec)
    encoded = codec.encode(stated, PIXELS)
    np.testing.assert_array_equal(codec.decode(stated, encoded), PIXELS)
    with pytest.raises(EncodingError, match="would take 60 bytes, but only 59 are allowed"):
        codec.decode(free, encoded)


@pytest.mark.parametrize("name", ["jpeg", "jpg"])
def test_jpeg_images_read_back_nearly_unchanged(name: str) -> None:
    smooth = np.linspace(0, 250, 16 * 16).reshape(16, 16).astype(np.uint8)
    image = np.stack([smooth, smooth[::-1], smooth.T], axis=-1)
    codec = CompressedImageCodec(name, 95)
    declared = field(np.uint8, (16, 16, 3), codec)
    encoded = codec.encode(declared, image)
    assert encoded.startswith(b"\xff\xd8")
    assert np.abs(codec.decode(declared, encoded).astype(int) - image).mean() < 4
    coarse = CompressedImageCodec(name, 5).encode(declared, image)
    assert len(coarse) < len(encoded)


@pytest.mark.parametrize(
    ("image_codec", "image", "message"),
    [
        ("png", np.zeros((4, 5, 4), np.uint8), "Unexpected image dimensions. Supported dimensions"),
        ("png", np.zeros((2,), np.uint8), "Unexpected image dimensions."),
        ("png", np.zeros((2, 2), np.float32), "float32 .* cannot be written as png"),
        ("jpeg", np.zeros((2, 2), np.uint16), "uint16 .* cannot be written as jpeg"),
        ("png", np.zeros((0, 2), np.uint8), r"an image of shape \(0, 2\) has no pixels"),
    ],
)
def test_array_that_cannot_be_encoded_as_image_raises_error(
    image_codec: str, image: Any, message: str
) -> None:
    codec = CompressedImageCodec(image_codec)
    with pytest.raises(EncodingError, match=message):
        codec.encode(field(image.dtype.type, image.shape, codec), image)


def test_format_is_checked_when_it_is_used_if_pillow_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InvalidArgumentError, match="image_codec"):
        CompressedImageCodec("no format")
    monkeypatch.setitem(sys.modules, "PIL", None)
    codec, image = CompressedImageCodec("jpeg"), np.zeros((2, 2), np.uint8)
    with pytest.raises(MissingDependencyError, match=r"mdstorm\[images\]"):
        codec.encode(field(np.uint8, (2, 2), codec), image)


def test_image_with_transparency_raises_error() -> None:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGBA", (2, 2)).save(file, "PNG")
    with pytest.raises(EncodingError, match="Unexpected image dimensions"):
        CompressedImageCodec().decode(field(np.uint8, (2, 2, 3), None), file.getvalue())
