"""Images, and lists of them."""

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

__all__ = ["IMAGE_ENCODINGS"]


class _Image(Encoding):
    """One image, which Pillow opens."""

    is_image = True
    is_shown = False
    rows_per_batch = 128

    def encode(self, value: Any) -> bytes:
        """Encode an image of Pillow."""
        return self.encode_image(checked_image(value))

    @abstractmethod
    def encode_image(self, image: Any) -> bytes:
        """Return the bytes of an image of Pillow."""

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

    def encode_image(self, image: Any) -> bytes:
        """Return mode, size and pixels."""
        return encode_pil(image)


class _Jpeg(_Image):
    """The encoding ``jpeg``."""

    names = ("jpeg",)

    def encode_image(self, image: Any) -> bytes:
        """Return a JPEG file, the one that the image was opened from if possible."""
        return encode_jpeg(image)


class _Png(_Image):
    """The encoding ``png``; an image file says itself which kind it is."""

    names = ("png",)
    holds = frozenset({"jpeg"})

    def encode_image(self, image: Any) -> bytes:
        """Return a PNG file."""
        return encode_png(image)


class _ImageList(Encoding):
    """A list of images."""

    is_shown = False
    in_threads = True
    rows_per_batch = 128
    image: ClassVar[_Image]
    #: Bytes of zero before the number of images.
    reserved: ClassVar[int] = 4

    @property
    def placeholder(self) -> bytes:
        """A list without images."""
        return bytes(self.reserved + 4)

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

    def tensorflow_dtype(self, type_: pa.DataType) -> str | None:
        """Return None."""
        return None


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

    names = ("jpeg_array", "jpegarray")
    image = _Jpeg("jpeg")
    reserved = 0

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether they are lists of files."""
        is_list = pa.types.is_list(type_) and pa.types.is_binary(type_.value_type)
        return bool(is_list or super().can_store(type_))

    def encode(self, value: Any) -> bytes:
        """Encode a sequence of JPEG files."""
        return join_images(checked_jpeg_files(value))


#: All of them.
IMAGE_ENCODINGS = (_RawImage, _Jpeg, _Png, _RawImages, _Jpegs, _Pngs, _JpegFiles)
