"""Encodings of images and of lists of images."""

from __future__ import annotations

import importlib
import io
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mdstorm_backend.base.optional import require
from mdstorm_backend.format.encodings.decode_images import image_array, open_image, split_images
from mdstorm_backend.format.encodings.encoding import Decode, Encoding, Form


def join_images(parts: Sequence[bytes | bytearray]) -> bytes:
    """Return the number of images, their sizes, and the images."""
    sizes = [len(part) for part in parts]
    if max(sizes, default=0) >= 1 << 32:
        raise OverflowError("an image takes 4 GiB or more")
    return np.array([len(parts), *sizes], "<u4").tobytes() + b"".join(parts)


def _holds(content: bytes, image: Any) -> bool:
    """Whether a file holds the pixels of `image`, which was opened from there."""
    open_image = importlib.import_module("PIL.Image").open
    try:
        with open_image(io.BytesIO(content), formats=["JPEG"]) as stored:
            if (stored.size, stored.mode) != (image.size, image.mode):
                return False
            # Pillow reads pixels on first use; until then nobody can have changed them.
            return bool(image.tile) or stored.tobytes() == image.tobytes()
    except OSError:
        return False


def _saved(image: Any, format_: str) -> bytes:
    file = io.BytesIO()
    image.save(file, format=format_)
    return file.getvalue()


class _Image(Encoding):
    """One image, which Pillow opens."""

    is_image = True
    rows_per_batch = 128

    @staticmethod
    @abstractmethod
    def to_bytes(image: Any) -> bytes:
        """Return the bytes of an image of Pillow."""

    def encode(self, value: Any) -> bytes:
        """Encode an image of Pillow."""
        require("PIL")
        image_class = importlib.import_module("PIL.Image").Image
        if not isinstance(value, image_class):
            raise TypeError(
                f"it is of type {type(value).__name__} and must be a PIL image, or its bytes"
            )
        return self.to_bytes(value)

    def decode(self, stored: Any) -> Any:
        """Return an image of Pillow, decoded when its pixels are asked for."""
        return open_image(self.kind, stored)

    def decoder(self, form: Form = "object") -> Decode:
        """Return the function that makes an image of Pillow, or an array, of what is stored."""
        return partial(open_image if form == "object" else image_array, self.kind)

    def tensorflow_dtype(self, type_: pa.DataType) -> str | None:
        """Return the dtype of the pixels."""
        return "uint8"


class _RawImage(_Image):
    """The encoding ``pil``: pixels as they are."""

    names = ("pil",)

    @staticmethod
    def to_bytes(image: Any) -> bytes:
        """Return mode, size and raw pixels of an image."""
        mode: bytes = image.mode.encode()
        pixels: bytes = image.tobytes()
        return np.array([*image.size, len(mode)], "<u4").tobytes() + mode + pixels


class _Jpeg(_Image):
    """The encoding ``jpeg``."""

    names = ("jpeg",)

    @staticmethod
    def to_bytes(image: Any) -> bytes:
        """Return the file that the image was opened from if it still holds these pixels.

        Encoding a JPEG image once more would lose quality.

        Raises
        ------
        OSError
            If Pillow cannot write it, as pixels with transparency to a JPEG file.
        """
        plugin = importlib.import_module("PIL.JpegImagePlugin")
        name = getattr(image, "filename", None)
        if isinstance(image, plugin.JpegImageFile) and name:
            with suppress(OSError):  # it is gone; the image itself is still there
                content = Path(name).read_bytes()
                if _holds(content, image):
                    return content
        return _saved(image, "JPEG")


class _Png(_Image):
    """The encoding ``png``; an image file says itself which kind it is."""

    names = ("png",)
    holds = frozenset({"jpeg"})

    @staticmethod
    def to_bytes(image: Any) -> bytes:
        """Return an image as a PNG file."""
        return _saved(image, "PNG")


class _ImageList(Encoding):
    """A list of images."""

    in_threads = True
    placeholder = bytes(8)
    rows_per_batch = 128
    image: ClassVar[_Image]
    #: Bytes of zero before the number of images.
    reserved: ClassVar[int] = 4

    def encode(self, value: Any) -> bytes:
        """Encode a list of images of Pillow."""
        if not isinstance(value, list):
            raise TypeError(f"it is of type {type(value).__name__} and must be a list of images")
        return bytes(self.reserved) + join_images([self.image.encode(image) for image in value])

    def decode(self, stored: Any) -> Any:
        """Return a list of images of Pillow."""
        return self.decoder()(stored)

    def decoder(self, form: Form = "object") -> Decode:
        """Return the function that makes a list of images, or of arrays, of what is stored."""
        decode, reserved = self.image.decoder(form), self.reserved
        return lambda stored: [decode(image) for image in split_images(stored, reserved)]


class _RawImages(_ImageList):
    names = ("list[pil]",)
    image = _RawImage("pil")


class _Jpegs(_ImageList):
    names = ("list[jpeg]",)
    image = _Jpeg("jpeg")


class _Pngs(_ImageList):
    names = ("list[png]",)
    holds = frozenset({"list[jpeg]"})
    image = _Png("png")


class _JpegFiles(_ImageList):
    """The encoding ``jpeg_array``: JPEG files, given as such."""

    names = ("jpeg_array",)
    aliases = ("jpegarray",)
    image = _Jpeg("jpeg")
    stores = (pa.list_(pa.binary()).equals,)
    placeholder = bytes(4)
    reserved = 0

    def encode(self, value: Any) -> bytes:
        """Encode a sequence of JPEG files."""
        if not isinstance(value, Sequence) or isinstance(value, (str, bytearray)):
            raise TypeError(
                f"it is of type {type(value).__name__} and must be a list of JPEG files"
            )
        for file in value:
            if not isinstance(file, (bytes, bytearray)):
                raise TypeError(
                    f"it holds a value of type {type(file).__name__} and must hold JPEG files as "
                    "bytes"
                )
        return join_images(value)


#: All of them.
IMAGE_ENCODINGS = (_RawImage, _Jpeg, _Png, _RawImages, _Jpegs, _Pngs, _JpegFiles)
