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

from mdstorm_backend.format.encodings import decode_images
from mdstorm_backend.format.encodings.encoding import DecodeValue, Encoding, Form


def join_images(parts: Sequence[bytes | bytearray]) -> bytes:
    """Return the stored form of a list of images: their number, their sizes, and the images."""
    sizes = [len(part) for part in parts]
    if max(sizes, default=0) >= 1 << 32:
        raise OverflowError("an image takes 4 GiB or more")
    return np.array([len(parts), *sizes], "<u4").tobytes() + b"".join(parts)


def _holds(content: bytes, image: Any) -> bool:
    """Whether a file still holds the pixels of `image`, which was opened from the file."""
    try:
        with decode_images.image_module().open(io.BytesIO(content), formats=["JPEG"]) as stored:
            if (stored.size, stored.mode) != (image.size, image.mode):
                return False
            # Pillow reads pixels on first use, so pixels that were never read are unchanged.
            return bool(image.tile) or stored.tobytes() == image.tobytes()
    except OSError:
        return False


def _saved(image: Any, format_: str) -> bytes:
    file = io.BytesIO()
    image.save(file, format=format_)
    return file.getvalue()


class _Image(Encoding):
    """One image, as a Pillow image."""

    is_image = True
    rows_per_batch = 128

    @staticmethod
    @abstractmethod
    def to_bytes(image: Any) -> bytes:
        """Return the stored bytes of a Pillow image."""

    def encode(self, value: Any) -> bytes:
        """Return the stored bytes of a Pillow image, or raise TypeError."""
        if not isinstance(value, decode_images.image_module().Image):
            raise TypeError(
                f"expected a PIL image or its bytes, found {type(value).__name__}: turn "
                "an array into an image by PIL's Image.fromarray(…)"
            )
        return self.to_bytes(value)

    def decode(self, stored: Any) -> Any:
        """Return a Pillow image, decoded when its pixels are first used."""
        return decode_images.open_image(self.kind, stored)

    def decoder(self, form: Form = "object") -> DecodeValue:
        """Return the function that decodes stored bytes to a Pillow image or an array."""
        decode = decode_images.open_image if form == "object" else decode_images.image_array
        return partial(decode, self.kind)


class _RawImage(_Image):
    """The encoding ``pil``: raw pixels."""

    names = ("pil",)

    @staticmethod
    def to_bytes(image: Any) -> bytes:
        """Return the size, mode and raw pixels of an image."""
        mode: bytes = image.mode.encode()
        pixels: bytes = image.tobytes()
        return np.array([*image.size, len(mode)], "<u4").tobytes() + mode + pixels


class _Jpeg(_Image):
    """The encoding ``jpeg``: a JPEG file."""

    names = ("jpeg",)

    @staticmethod
    def to_bytes(image: Any) -> bytes:
        """Return the JPEG file that the image was opened from, if unchanged, or a new one.

        Encoding a JPEG image again would lose quality.

        Raises
        ------
        OSError
            If Pillow cannot write the image to a JPEG file, such as one with transparency.
        """
        plugin = importlib.import_module("PIL.JpegImagePlugin")
        name = getattr(image, "filename", None)
        if isinstance(image, plugin.JpegImageFile) and name:
            with suppress(OSError):  # the file is gone, but the image is in memory
                content = Path(name).read_bytes()
                if _holds(content, image):
                    return content
        return _saved(image, "JPEG")


class _Png(_Image):
    """The encoding ``png``: a PNG file; reading accepts other formats, such as JPEG."""

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
    #: Number of zero bytes before the number of images.
    reserved: ClassVar[int] = 4

    def encode(self, value: Any) -> bytes:
        """Return the stored bytes of a list of Pillow images."""
        if not isinstance(value, list):
            raise TypeError(f"expected a list of images, found {type(value).__name__}")
        return bytes(self.reserved) + join_images([self.image.encode(image) for image in value])

    def decode(self, stored: Any) -> Any:
        """Return a list of Pillow images."""
        return self.decoder()(stored)

    def decoder(self, form: Form = "object") -> DecodeValue:
        """Return the function that decodes stored bytes to a list of images or arrays."""
        decode, reserved = self.image.decoder(form), self.reserved
        split = decode_images.split_images
        return lambda stored: [decode(image) for image in split(stored, reserved)]


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
    """The encoding ``jpeg_array``: a list of JPEG files, written from their bytes."""

    names = ("jpeg_array",)
    aliases = ("jpegarray",)
    image = _Jpeg("jpeg")
    stores = (pa.list_(pa.binary()).equals,)
    placeholder = bytes(4)
    reserved = 0

    def encode(self, value: Any) -> bytes:
        """Return the stored bytes of a sequence of JPEG files."""
        if not isinstance(value, Sequence) or isinstance(value, (str, bytearray)):
            raise TypeError(f"expected a list of JPEG files, found {type(value).__name__}")
        for file in value:
            if not isinstance(file, (bytes, bytearray)):
                raise TypeError(
                    f"expected a list of JPEG files as bytes, found {type(file).__name__} in it"
                )
        return join_images(value)
