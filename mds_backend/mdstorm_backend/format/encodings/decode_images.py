"""Decode stored images into Pillow images or NumPy arrays.

Image files are opened by Pillow. The raw form ``pil`` (width, height and length of the mode as
uint32, the mode, the pixels) needs Pillow for Pillow images and for rare modes, but not for common
arrays. JPEG files are decoded to arrays by simplejpeg if it is installed, which is about twice as
fast. PNG files as OpenCV writes them are decoded by NumPy (`decode_png`). In other PNG files, RGB
with 16 bits, which Pillow does not support, is decoded twice: once for the high bytes and once for
the low bytes.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import InvalidArgumentError, UnsupportedEncodingError
from mdstorm_backend.format.encodings.decode_png import png_pixels
from mdstorm_backend.format.encodings.image_memory import MAX_IMAGE_BYTES, check_size, output_array

if TYPE_CHECKING:
    from PIL.Image import Image

#: Bits per pixel of the modes that raw images may have.
_BITS = {
    "1": 1,
    **dict.fromkeys(("L", "P"), 8),
    **dict.fromkeys(("LA", "La", "PA", "I;16", "I;16B", "I;16L", "I;16N"), 16),
    **dict.fromkeys(("RGB", "YCbCr", "LAB", "HSV"), 24),
    **dict.fromkeys(("RGBA", "RGBa", "RGBX", "CMYK", "I", "F"), 32),
}
#: Modes whose raw bytes are the channels of the pixels, and the number of channels.
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}

#: Mode → the mode to which it is converted. Modes in neither table are not converted.
_CONVERTED = {
    **dict.fromkeys(("P", "RGBX", "CMYK", "YCbCr", "HSV"), "RGB"),
    **dict.fromkeys(("PA", "RGBa"), "RGBA"),
    **{"1": "L", "La": "LA"},
}

#: Colour space of JPEG files that simplejpeg decodes like Pillow → simplejpeg's name for the
#: output.
_TURBO_COLOURS = {"Gray": "GRAY", "YCbCr": "RGB"}

#: A JPEG file that is resized afterwards is decoded at full size or at most 5/8 of it: scaling by
#: 6/8 and 7/8 is slower.
_LEAST_FACTOR = 1.5

#: Formats that Pillow recognizes, but decodes with other programs or not at all.
_NOT_DECODED = ("BUFR", "EPS", "GRIB", "HDF5", "WMF")
#: First bytes of image files → the format. Pillow decodes these formats only if it was built with a
#: library, or if a plugin is installed. In AVIF and HEIF, four bytes with a length come first.
_OPTIONAL = {
    b"ftypavif": "AVIF",
    b"ftypavis": "AVIF",
    b"ftyphei": "HEIF",
    b"ftyphev": "HEIF",
    b"ftypmif1": "HEIF",
    b"ftypmsf1": "HEIF",
    b"\xff\x0a": "JXL",
    b"\0\0\0\x0cJXL ": "JXL",
}

_HEADER = struct.Struct("<III")

_PNG = b"\x89PNG\r\n\x1a\n"
#: Position of the bit depth and colour type in a PNG file, and their values for RGB.
_DEPTH_AND_KIND = slice(24, 26)
_RGB8, _RGB16 = bytes([8, 2]), bytes([16, 2])


def split_images(data: bytes, reserved: int) -> list[bytes]:
    """Split a stored list of images into the images.

    Parameters
    ----------
    data : bytes
        Zeros, the number of images and their sizes, all uint32, and the images.
    reserved : int
        Number of zero bytes: 0 in a ``"jpeg_array"``, 4 in a ``"list[…]"``.

    Raises
    ------
    ValueError
        If the sizes do not match `data`.
    """
    count = int.from_bytes(data[reserved : reserved + 4], "little")
    position = reserved + 4 + 4 * count
    if len(data) < position or any(data[:reserved]):
        raise ValueError(f"a list of {count} images does not fit into {len(data)} bytes")
    images = []
    for size in struct.unpack_from(f"<{count}I", data, reserved + 4):
        images.append(data[position : position + size])
        position += size
    if position != len(data):
        raise ValueError(f"a list of images has {len(data)} bytes, expected {position}")
    return images


def open_image(kind: str, data: bytes, most: int = MAX_IMAGE_BYTES) -> Image:
    """Return a Pillow image; files are decoded when their pixels are first used.

    A file's decoded pixels may take up at most `most` bytes.

    Raises
    ------
    UnsupportedEncodingError
        If the installed Pillow cannot decode the file's format.
    Exception
        Of many kinds, if `data` is not an image.
    """
    if kind != "pil":
        try:
            image: Image = image_module().open(io.BytesIO(data))
        except OSError:
            _check_format(_format_of(data))
            raise
        except image_module().DecompressionBombError as error:
            raise InvalidArgumentError(
                f"{error}: if you trust the image, increase PIL.Image.MAX_IMAGE_PIXELS"
            ) from error
        if image.format in _NOT_DECODED:
            raise _unsupported(image.format)
        check_size(*image.size, 24 if image.mode == "P" else _BITS.get(image.mode, 32), most)
        return image
    mode, width, height, start = _raw_header(data)
    return image_module().frombytes(mode, (width, height), data[start:])  # type: ignore[no-any-return]


def _format_of(data: bytes) -> str | None:
    """Return the format of a file that Pillow has not opened, if it is a well-known one."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    starts = (data[:12], data[4:12])
    found = (name for first, name in _OPTIONAL.items() if any(s.startswith(first) for s in starts))
    return next(found, None)


def _check_format(name: str | None) -> None:
    """Raise UnsupportedEncodingError if the installed Pillow has no decoder for a format."""
    # Pillow registers how to open WEBP and AVIF even without a decoder, but not how to save them.
    if name is not None and name not in image_module().SAVE:
        raise _unsupported(name)


def _unsupported(name: str) -> UnsupportedEncodingError:
    return UnsupportedEncodingError(
        f"unsupported format {name}: the installed Pillow {image_module().__version__} cannot "
        "decode it. Install a version or a plugin of Pillow that can, or convert the images"
    )


def image_array(
    kind: str,
    data: bytes,
    out: npt.NDArray[Any] | None = None,
    most: int = MAX_IMAGE_BYTES,
) -> npt.NDArray[Any]:
    """Return the pixels of an image as an array.

    Parameters
    ----------
    kind : str
        ``"pil"``, or anything else for a file.
    data : bytes
        The stored value.
    out : numpy.ndarray, optional
        Contiguous output array, used if it has the pixels' shape and dtype.
    most : int
        Maximum size of the pixels in bytes.

    Returns
    -------
    numpy.ndarray
        ``(height, width)`` for one channel, otherwise ``(height, width, channels)``, uint8 except
        if a channel has 16 or 32 bits. Colours other than grey and RGB are converted to RGB,
        palettes to their colours. The result is `out` if the image has its shape and dtype.

    Raises
    ------
    Exception
        Of many kinds, if `data` is not an image.
    """
    if kind == "pil":
        mode, width, height, start = _raw_header(data)
        # A raw palette image stores the indices of its colours, but not the palette.
        channels = 1 if mode == "P" else _CHANNELS.get(mode)
        if channels is not None:
            shape = (height, width) if channels == 1 else (height, width, channels)
            return _owned(np.frombuffer(data, np.uint8, offset=start).reshape(shape), out)
    elif (by_turbo := _turbo_pixels(data, out, most)) is not None:
        return by_turbo
    elif (by_numpy := png_pixels(data, out, most)) is not None:
        return by_numpy
    elif data.startswith(_PNG) and data[_DEPTH_AND_KIND] == _RGB16:
        return _owned(_rgb16_pixels(data, most), out)
    return _pixels(open_image(kind, data, most), out)


def rgb_pixels(
    kind: str,
    data: bytes,
    size: tuple[int, int] | None = None,
    out: npt.NDArray[np.uint8] | None = None,
    most: int = MAX_IMAGE_BYTES,
) -> npt.NDArray[np.uint8]:
    """Return the pixels of an image as 8-bit RGB, without transparency.

    Parameters
    ----------
    kind, data, out, most
        As in `image_array`.
    size : (int, int), optional
        Height and width: the image is resized to cover them, with the filter that Pillow and
        torchvision call bilinear, and cropped at its centre. JPEG files are decoded at a half, a
        quarter or another fraction of their size if that is fast and still large enough.

    Returns
    -------
    numpy.ndarray
        uint8 ``(height, width, 3)``; it is `out` if `out` has that shape.

    Raises
    ------
    Exception
        Of many kinds, if `data` is not an image.
    """
    decoded = None
    if kind != "pil":
        decoded = _turbo_pixels(data, out, most, rgb=True, size=size)
        if decoded is None and data[_DEPTH_AND_KIND] == _RGB8:
            decoded = png_pixels(data, out, most)
    if decoded is None:
        image = open_image(kind, data, most)
        if size is not None:
            image.draft(None, size[::-1])  # None: keep the mode
        image = _as_rgb(image)
    elif size is None:
        return _owned(decoded, out)
    else:
        image = image_module().fromarray(decoded)
    return _owned(np.asarray(image if size is None else _cropped(image, size)), out)


def _scale(height: int, width: int, size: tuple[int, int]) -> float:
    """Return the factor by which each axis of an image is reduced so that it just covers `size`."""
    return min(height / size[0], width / size[1])


def _as_rgb(image: Image) -> Image:
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        image = image_module().fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")


def _cropped(image: Image, size: tuple[int, int]) -> Image:
    """Resize an image to cover `size` and crop its centre, in one operation."""
    height, width = size
    scale = _scale(image.height, image.width, size)
    if scale == 1:  # resizing with an offset of half a pixel would blur the image
        x, y = (image.width - width) // 2, (image.height - height) // 2
        return image.crop((x, y, x + width, y + height))
    left = max((image.width - width * scale) / 2, 0)
    top = max((image.height - height * scale) / 2, 0)
    box = (left, top, image.width - left, image.height - top)
    return image.resize((width, height), image_module().Resampling.BILINEAR, box)


def _turbo_pixels(
    data: bytes,
    out: npt.NDArray[Any] | None,
    most: int,
    *,
    rgb: bool = False,
    size: tuple[int, int] | None = None,
) -> npt.NDArray[Any] | None:
    """Decode a JPEG file with simplejpeg; return None if Pillow has to decode it.

    With a `size`, the image may be decoded at a fraction of its size that still covers `size`.
    """
    turbo = turbo_module() if data[:2] == b"\xff\xd8" else None
    if turbo is None:
        return None
    try:
        height, width, colours, _ = turbo.decode_jpeg_header(data)
        if colours not in _TURBO_COLOURS:
            return None
        check_size(width, height, 8 if colours == "Gray" else 24, most)
        colours = "RGB" if rgb else _TURBO_COLOURS[colours]
        if size is not None:
            least = {"min_height": size[0], "min_width": size[1], "min_factor": 1.0}
            height, width, *_ = turbo.decode_jpeg_header(data, **least)
            if _scale(height, width, size) != 1:  # the image will be resized, not only cropped
                least["min_factor"] = _LEAST_FACTOR
            scaled: npt.NDArray[Any] = turbo.decode_jpeg(data, colours, **least)
            return scaled
        shape = (height, width) if colours == "GRAY" else (height, width, 3)
        out = output_array(out, shape, np.uint8)
        turbo.decode_jpeg(data, colours, buffer=out)
    except (LookupError, ValueError):  # Pillow accepts more files, and its errors are clearer
        return None
    return out


def _rgb16_pixels(data: bytes, most: int) -> npt.NDArray[Any]:
    """Decode an RGB PNG file with 16 bits per channel."""
    # Pillow keeps one byte per channel, and the raw mode determines which of the two.
    high, low = (_decoded_as(data, mode, most) for mode in ("RGB;16B", "RGB;16L"))
    pixels: npt.NDArray[Any] = high.astype(np.uint16) << 8 | low
    return pixels


def _decoded_as(data: bytes, raw_mode: str, most: int) -> npt.NDArray[Any]:
    """Decode a PNG file with `raw_mode` as its pixel layout instead of the file's own."""
    image = open_image("png", data, most)
    image.tile = [(codec, extents, offset, raw_mode) for codec, extents, offset, _ in image.tile]  # type: ignore[attr-defined]
    return np.asarray(image)


def _pixels(image: Image, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    mode = _CONVERTED.get(image.mode)
    if mode == "RGB" and "transparency" in image.info:
        mode = "RGBA"
    pixels = np.asarray(image if mode is None else image.convert(mode))
    if image.mode == "I" and image.format == "PNG":
        pixels = pixels.astype(np.uint16)  # 16 bits, which older versions of Pillow widen to 32
    return _owned(pixels, out)


def _owned(pixels: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return the pixels in `out` if its shape and dtype match, or else in a new array."""
    out = output_array(out, pixels.shape, pixels.dtype.newbyteorder("="))
    if out is not pixels:
        np.copyto(out, pixels)
    return out


def _raw_header(data: bytes) -> tuple[str, int, int, int]:
    """Return the mode, width and height of a raw image, and the position of its pixels."""
    width, height, length = _HEADER.unpack_from(data)
    start = _HEADER.size + length
    mode = data[_HEADER.size : start][:16].decode("latin-1")  # in damaged data, it may be longer
    if mode not in _BITS:
        raise ValueError(f"an image of the unknown mode {mode!r}")
    if start + (width * _BITS[mode] + 7) // 8 * height != len(data):
        raise ValueError(f"an image of {width} by {height} pixels {mode} in {len(data)} bytes")
    return mode, width, height, start


def image_module() -> Any:
    """Return the module `PIL.Image`; raise MissingDependencyError if Pillow is not installed."""
    require("PIL")
    return importlib.import_module("PIL.Image")


@lru_cache(maxsize=1)
def turbo_module() -> Any:
    """Return the module `simplejpeg`; None if it is not installed, so that Pillow decodes JPEGs."""
    found = importlib.util.find_spec("simplejpeg")
    return None if found is None else importlib.import_module("simplejpeg")
