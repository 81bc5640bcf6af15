"""Encodings of images and of lists of images."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from mdstorm_backend.format.encodings.decode_images import image_array, open_image, split_images
from mdstorm_backend.format.encodings.encode_images import (
    checked_image,
    checked_jpeg_files,
    encode_jpeg,
    encode_pil,
    encode_png,
    join_images,
)
from mdstorm_backend.format.encodings.encoding import Decode, Encoding, Form


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
        return self.to_bytes(checked_image(value))

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
    to_bytes = staticmethod(encode_pil)


class _Jpeg(_Image):
    """The encoding ``jpeg``."""

    names = ("jpeg",)
    to_bytes = staticmethod(encode_jpeg)


class _Png(_Image):
    """The encoding ``png``; an image file says itself which kind it is."""

    names = ("png",)
    holds = frozenset({"jpeg"})
    to_bytes = staticmethod(encode_png)


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
        return join_images(checked_jpeg_files(value))


#: All of them.
IMAGE_ENCODINGS = (_RawImage, _Jpeg, _Png, _RawImages, _Jpegs, _Pngs, _JpegFiles)
