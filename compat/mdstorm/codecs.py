"""Codecs, which encode and decode the values of a field for Spark.

The classes, their string representations and the bytes they write are the same as in
``petastorm.codecs``. Arrays are stored as ``.npy`` files, and images as PNG or JPEG files. Neither
Spark nor OpenCV is required.
"""

from __future__ import annotations

import importlib.util
import io
import math
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm._array_files import fits_shape, inflate, parse_header
from mdstorm._schema import NamedSparkType, UnischemaField, class_name, spark_type_of_numpy
from mdstorm.errors import ArgumentTypeError, EncodingError, EncodingTypeError, InvalidArgumentError
from mdstorm_backend.base import check_one_of, check_text, require
from mdstorm_backend.format import MAX_IMAGE_BYTES, image_array

__all__ = [
    "CompressedImageCodec",
    "CompressedNdarrayCodec",
    "DataframeColumnCodec",
    "NdarrayCodec",
    "ScalarCodec",
]

#: Scalar conversions by Spark type. Scalars of other Spark types are not converted.
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "BinaryType": lambda value: value.item() if isinstance(value, np.bytes_) else value,
    "BooleanType": bool,
    "ByteType": int,
    "DoubleType": float,
    "FloatType": float,
    "IntegerType": int,
    "LongType": int,
    "ShortType": int,
    "StringType": str,
}
#: Pillow's names for formats, where they differ from the format's name in uppercase.
_PILLOW_NAMES = {"jpg": "JPEG", "jpe": "JPEG", "tif": "TIFF", "jp2": "JPEG2000", "dib": "BMP"}
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: PNG color types.
_GREY, _RGB = 0, 2
#: The PNG filter that stores the difference from the pixel to the left.
_SUB = 1


class DataframeColumnCodec(ABC):
    """Base class for codecs, including user-defined ones."""

    @abstractmethod
    def encode(self, unischema_field: UnischemaField, value: Any) -> Any:
        """Encode a value, which is never None, for a Spark DataFrame."""

    @abstractmethod
    def decode(self, unischema_field: UnischemaField, value: Any) -> Any:
        """Decode an encoded value."""

    @abstractmethod
    def spark_dtype(self) -> Any:
        """Return the column's Spark type as a `pyspark.sql.types.DataType`."""

    def __str__(self) -> str:
        return f"{type(self).__name__}()"

    def __repr__(self) -> str:
        return str(self)


class ScalarCodec(DataframeColumnCodec):
    """A codec that stores a scalar in a column of any Spark type.

    Parameters
    ----------
    spark_type : pyspark.sql.types.DataType or NumPy type
        Column type, such as ``LongType()``, or ``np.int64`` for the type in which Spark stores it.
    """

    def __init__(self, spark_type: Any) -> None:
        if isinstance(spark_type, (type, np.dtype)):
            spark_type = spark_type_of_numpy(spark_type) or spark_type
        if isinstance(spark_type, (str, type)):
            raise ArgumentTypeError(
                f"a ScalarCodec takes a Spark type, such as LongType(), found {spark_type!r}"
            )
        self._spark_type = spark_type

    def encode(self, unischema_field: UnischemaField, value: Any) -> Any:
        """Convert a scalar to a Python int, float, bool or str, depending on the Spark type.

        Fractions are truncated in integer columns. Values for other Spark types, such as decimals
        and timestamps, are returned unchanged.

        Raises
        ------
        EncodingTypeError
            If the value is not a scalar; also TypeError, ValueError.
        EncodingError
            If the value cannot be converted; also ValueError.
        InvalidArgumentError
            If the field has a shape.
        """
        name = unischema_field.name
        if unischema_field.shape:
            raise InvalidArgumentError(
                f"The shape field of unischema_field {name!r} must be an empty tuple, '()', for a "
                f"scalar; it is {unischema_field.shape}. Use NdarrayCodec() for arrays"
            )
        kind = class_name(self._spark_type)
        if has_length(value) and not (
            kind == "BinaryType" and isinstance(value, (bytes, bytearray))
        ):
            raise EncodingTypeError(
                f"Expected a scalar as a value for field {name!r}. Got a value of type "
                f"{type(value)}: pass a single value, or declare the field with a shape and "
                "NdarrayCodec()",
                column=name,
            )
        if kind == "StringType" and not isinstance(value, str):
            raise EncodingTypeError(
                f"Expected a string value for field {name}. Got type {type(value)}", column=name
            )
        convert = _CONVERSIONS.get(kind)
        if convert is None:
            return value
        try:
            return convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            class_ = EncodingTypeError if isinstance(error, TypeError) else EncodingError
            raise class_(
                f"Field {name!r} of Spark type {kind} cannot hold {value!r} ({error})", column=name
            ) from error

    def decode(self, unischema_field: UnischemaField, value: Any) -> Any:
        """Convert the value to the field's NumPy type or to a Decimal."""
        dtype = unischema_field.numpy_dtype
        return (dtype.type if isinstance(dtype, np.dtype) else dtype)(value)

    def spark_dtype(self) -> Any:
        """Return the column's Spark type, as passed to the constructor."""
        if isinstance(self._spark_type, NamedSparkType):
            return self._spark_type.load()
        return self._spark_type

    def __str__(self) -> str:
        return f"ScalarCodec({class_name(self._spark_type)}())"


class _BinaryCodec(DataframeColumnCodec):
    def spark_dtype(self) -> Any:
        """Return `pyspark.sql.types.BinaryType`."""
        return NamedSparkType("binary").load()


class NdarrayCodec(_BinaryCodec):
    """A codec that stores an array in the format written by `numpy.save`."""

    def encode(self, unischema_field: UnischemaField, value: npt.NDArray[Any]) -> bytearray:
        """Return the array in ``.npy`` format.

        Raises
        ------
        EncodingTypeError
            If the value is not an array of the field's dtype; also ValueError.
        EncodingError
            If the shape differs from the field's; also ValueError.
        """
        check_array(unischema_field, value)
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return bytearray(file.getbuffer())

    def decode(self, unischema_field: UnischemaField, value: bytes) -> npt.NDArray[Any]:
        """Return a copy of the array, without ever loading pickled objects.

        Raises
        ------
        EncodingError
            If `value` is not an array; also ValueError.
        """
        return _array(unischema_field, value, bytes)


class CompressedNdarrayCodec(_BinaryCodec):
    """A codec that stores an array in the format written by `numpy.savez_compressed`."""

    def encode(self, unischema_field: UnischemaField, value: npt.NDArray[Any]) -> bytearray:
        """Return the array in compressed ``.npz`` format.

        Raises
        ------
        EncodingTypeError, EncodingError
            As in `NdarrayCodec.encode`.
        """
        check_array(unischema_field, value)
        file = io.BytesIO()
        np.savez_compressed(file, arr=value)
        return bytearray(file.getbuffer())

    def decode(self, unischema_field: UnischemaField, value: bytes) -> npt.NDArray[Any]:
        """Return a copy of the array, without ever loading pickled objects.

        Raises
        ------
        EncodingError
            If `value` is not a compressed array, or the array has more values than the field
            declares; also ValueError.
        """
        return _array(unischema_field, value, lambda file: inflate(file, unischema_field.shape))


def _array(
    field: UnischemaField, value: bytes, unpack: Callable[[bytes], bytes]
) -> npt.NDArray[Any]:
    try:
        file = unpack(value)
        return parse_header(file).array(file)
    except ValueError as error:
        raise EncodingError(
            f"Field {field.name!r} holds {len(value)} bytes that are not an array ({error})",
            column=field.name,
        ) from error


class CompressedImageCodec(_BinaryCodec):
    """A codec that stores a grayscale or RGB image as an image file.

    Parameters
    ----------
    image_codec : str
        ``"png"`` (lossless, 8 or 16 bits), ``"jpeg"`` (8 bits), or another format that Pillow can
        write.
    quality : int
        Quality for lossy formats, from 0 to 100.

    Raises
    ------
    InvalidArgumentError
        If Pillow cannot write the format; not checked without Pillow.
    """

    def __init__(self, image_codec: str = "png", quality: int = 80) -> None:
        check_text("image_codec", image_codec)
        _check_format(image_codec.lstrip("."))
        # The dot is included, as in Petastorm's pickled schemas.
        self._image_codec = "." + image_codec.lstrip(".")
        self._quality = quality

    @property
    def image_codec(self) -> str:
        """Format name without a dot."""
        return self._image_codec[1:]

    @property
    def quality(self) -> int:
        """Quality for lossy formats, from 0 to 100."""
        return self._quality

    def encode(self, unischema_field: UnischemaField, value: npt.NDArray[Any]) -> bytearray:
        """Encode pixels of shape ``(H, W)`` or ``(H, W, 3)`` as an image file.

        Raises
        ------
        EncodingTypeError
            If the value is not an array of the field's dtype, or the format cannot store that
            dtype.
        EncodingError
            If the shape differs from the field's or is not an image shape; also ValueError.
        """
        check_array(unischema_field, value)
        if value.ndim != 2 and (value.ndim != 3 or value.shape[2] != 3):
            raise no_image(unischema_field, value)
        try:
            return bytearray(encode_image(self.image_codec, value, self._quality))
        except (KeyError, TypeError, ValueError, OSError) as error:
            class_ = EncodingTypeError if isinstance(error, TypeError) else EncodingError
            raise class_(
                f"Field {unischema_field.name!r}: an image of {value.dtype} and shape "
                f"{value.shape} cannot be written as {self.image_codec} ({error})",
                column=unischema_field.name,
            ) from error

    def decode(self, unischema_field: UnischemaField, value: bytes) -> npt.NDArray[Any]:
        """Return the pixels as a contiguous, writable array with the file's type, uint8 or uint16.

        Raises
        ------
        EncodingError
            If `value` is not a grayscale or RGB image; also ValueError.
        """
        try:
            # The declared shape can raise the limit on the decoded image size.
            declared = math.prod(side or 0 for side in unischema_field.shape)
            size = np.dtype(unischema_field.numpy_dtype).itemsize * declared
            pixels = image_array("png", bytes(value), most=max(MAX_IMAGE_BYTES, size))
        except Exception as error:  # Pillow's decoders may raise any error
            raise EncodingError(
                f"Field {unischema_field.name!r} holds {len(value)} bytes that are not an image "
                f"({error})",
                column=unischema_field.name,
            ) from error
        if pixels.ndim != 2 and pixels.shape[2] != 3:
            raise no_image(unischema_field, pixels)
        return pixels

    def __str__(self) -> str:
        return f"CompressedImageCodec({self.image_codec!r}, {self._quality})"


def _check_format(name: str) -> None:
    if name != "png" and importlib.util.find_spec("PIL"):
        image = importlib.import_module("PIL.Image")
        image.init()
        known = sorted({*_PILLOW_NAMES, *map(str.lower, image.SAVE)})
        check_one_of("image_codec", name.lower(), known, shown=repr(name))


def stored_image_codec(image_codec: str, quality: int) -> CompressedImageCodec:
    """Return the codec of stored images, also of formats that this machine cannot write."""
    codec = CompressedImageCodec(quality=quality)
    codec._image_codec = "." + image_codec.lstrip(".")
    return codec


def has_length(value: Any) -> bool:
    """Whether a value is a list, array, bytes or similar, rather than a scalar or a string."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, str)


def check_array(field: UnischemaField, value: Any) -> None:
    """Raise EncodingError unless a value is an array with the dtype and shape of `field`.

    Raises
    ------
    EncodingTypeError
        If the value is not an array or has a different dtype.
    EncodingError
        If the array has a different shape.
    """
    if not isinstance(value, np.ndarray):
        raise EncodingTypeError(
            f"Unexpected type of {field.name} feature. Expected ndarray of {field.numpy_dtype}. "
            f"Got {type(value)}",
            column=field.name,
        )
    if not _is_of_type(value.dtype, np.dtype(field.numpy_dtype)):
        raise EncodingTypeError(
            f"Unexpected type of {field.name} feature. Expected {field.numpy_dtype}. "
            f"Got {value.dtype}; convert it with .astype()",
            column=field.name,
        )
    if value.dtype.hasobject:
        raise EncodingTypeError(
            f"Unexpected type of {field.name} feature. Arrays of objects can be written only as "
            "pickles, which no reader loads; use an array of numbers or of fixed-size strings",
            column=field.name,
        )
    if not fits_shape(value.shape, field.shape):
        raise EncodingError(
            f"Unexpected dimensions of {field.name} feature. Expected {field.shape}. "
            f"Got {value.shape}; reshape it, or declare None for a dimension of any size",
            column=field.name,
        )


def _is_of_type(found: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether a dtype matches, in any byte order and, for strings and times, with any size."""
    if wanted.kind in "SUMm":
        return found.kind == wanted.kind
    return bool(found.newbyteorder("=") == wanted.newbyteorder("="))


def no_image(field: UnischemaField, value: npt.NDArray[Any]) -> EncodingError:
    """Return the error for an array that is not a grayscale or RGB image."""
    return EncodingError(
        f"Unexpected image dimensions. Supported dimensions are (H, W) or (H, W, 3). Field "
        f"{field.name!r} got {value.shape}",
        column=field.name,
    )


def encode_image(format_: str, pixels: npt.NDArray[Any], quality: int) -> bytes:
    """Encode pixels as an image file.

    Parameters
    ----------
    format_ : str
        ``"png"``, ``"jpeg"``, …
    pixels : numpy.ndarray
        ``(H, W)`` or ``(H, W, 3)`` in RGB, as uint8, or also uint16 for PNG.
    quality : int
        Quality for lossy formats, from 0 to 100.

    Raises
    ------
    TypeError
        If the format cannot store pixels of this dtype.
    KeyError, ValueError, OSError
        If the image has no pixels, or Pillow cannot write the format.
    """
    allowed = ("uint8", "uint16") if format_ == "png" else ("uint8",)
    if pixels.dtype.name not in allowed:
        raise TypeError(f"pixels must be {' or '.join(allowed)}")
    if not pixels.size:
        raise ValueError(f"an image of shape {pixels.shape} has no pixels")
    if format_ == "png":
        return _encode_png(pixels)
    require("PIL")
    image = importlib.import_module("PIL.Image").fromarray(np.ascontiguousarray(pixels))
    file = io.BytesIO()
    image.save(file, _PILLOW_NAMES.get(format_, format_.upper()), quality=quality)
    return file.getvalue()


def _encode_png(pixels: npt.NDArray[Any]) -> bytes:
    """Encode a PNG as OpenCV does (sub filter and RLE), several times faster than with Pillow."""
    height, width = pixels.shape[:2]
    samples = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">"))
    step = samples[:1, :1].nbytes
    stored = samples.view(np.uint8).reshape(height, -1)
    rows = np.empty((height, 1 + stored.shape[1]), np.uint8)
    rows[:, 0] = _SUB
    rows[:, 1 : 1 + step] = stored[:, :step]
    np.subtract(stored[:, step:], stored[:, :-step], out=rows[:, 1 + step :])
    kind = _GREY if pixels.ndim == 2 else _RGB
    header = struct.pack(">II5B", width, height, 8 * pixels.itemsize, kind, 0, 0, 0)
    packer = zlib.compressobj(1, strategy=zlib.Z_RLE)
    content = packer.compress(rows.data) + packer.flush()
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", content) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
