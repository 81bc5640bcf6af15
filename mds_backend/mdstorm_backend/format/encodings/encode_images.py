"""Encode Pillow images and lists of them."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdstorm_backend.base.optional import require


def checked_image(value: Any) -> Any:
    """Return an image of Pillow, of which it is known now that it is one.

    Raises
    ------
    TypeError
        If it is something else.
    """
    require("PIL")
    image_class = importlib.import_module("PIL.Image").Image
    if not isinstance(value, image_class):
        raise TypeError(
            f"it is of type {type(value).__name__} and must be a PIL image, or its bytes"
        )
    return value


def checked_jpeg_files(value: Any) -> Sequence[bytes | bytearray]:
    """Return a sequence of JPEG files, of which it is known now that each is given as bytes.

    Raises
    ------
    TypeError
        If it is something else.
    """
    if not isinstance(value, Sequence) or isinstance(value, (str, bytearray)):
        raise TypeError(f"it is of type {type(value).__name__} and must be a list of JPEG files")
    for file in value:
        if not isinstance(file, (bytes, bytearray)):
            raise TypeError(
                f"it holds a value of type {type(file).__name__} and must hold JPEG files as bytes"
            )
    return value


def join_images(parts: Sequence[bytes | bytearray]) -> bytes:
    """Return the number of images, their sizes, and the images."""
    sizes = [len(part) for part in parts]
    if max(sizes, default=0) >= 1 << 32:
        raise OverflowError("an image takes 4 GiB or more")
    return np.array([len(parts), *sizes], "<u4").tobytes() + b"".join(parts)


def encode_pil(image: Any) -> bytes:
    """Return mode, size and raw pixels of an image."""
    mode: bytes = image.mode.encode()
    pixels: bytes = image.tobytes()
    return np.array([*image.size, len(mode)], "<u4").tobytes() + mode + pixels


def encode_png(image: Any) -> bytes:
    """Return an image as a PNG file."""
    return _saved(image, "PNG")


def encode_jpeg(image: Any) -> bytes:
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
        try:
            with open(name, "rb") as file:
                content = file.read()
        except OSError:  # it is gone; the image itself is still there
            return _saved(image, "JPEG")
        if _holds(content, image):
            return content
    return _saved(image, "JPEG")


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
