"""Images of Pillow, and lists of them."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdstorm_backend.base.optional import require

__all__ = ["encode_image", "encode_images", "encode_jpeg_files"]


def encode_image(kind: str, value: Any) -> bytes:
    """Encode an image as ``pil`` (raw pixels), ``jpeg`` or ``png``.

    Raises
    ------
    TypeError
        If it is no image of Pillow.
    OSError
        If Pillow cannot write it, as pixels with transparency to a JPEG file.
    """
    require("PIL")
    image_class = importlib.import_module("PIL.Image").Image
    if not isinstance(value, image_class):
        raise TypeError(
            f"it is of type {type(value).__name__} and must be a PIL image, or its bytes"
        )
    return _ENCODERS[kind](value)


def encode_images(kind: str, value: Any) -> bytes:
    """Encode a list of images of one kind, each of them as `encode_image` does."""
    if not isinstance(value, list):
        raise TypeError(f"it is of type {type(value).__name__} and must be a list of images")
    return bytes(4) + _join([encode_image(kind, image) for image in value])


def encode_jpeg_files(value: Any) -> bytes:
    """Encode a sequence of JPEG files, each as bytes."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytearray)):
        raise TypeError(f"it is of type {type(value).__name__} and must be a list of JPEG files")
    for file in value:
        if not isinstance(file, (bytes, bytearray)):
            raise TypeError(
                f"it holds a value of type {type(file).__name__} and must hold JPEG files as bytes"
            )
    return _join(value)


def _join(parts: Sequence[bytes | bytearray]) -> bytes:
    sizes = [len(part) for part in parts]
    if max(sizes, default=0) >= 1 << 32:
        raise OverflowError("an image takes 4 GiB or more")
    return np.array([len(parts), *sizes], "<u4").tobytes() + b"".join(parts)


def _encode_pil(image: Any) -> bytes:
    mode: bytes = image.mode.encode()
    pixels: bytes = image.tobytes()
    return np.array([*image.size, len(mode)], "<u4").tobytes() + mode + pixels


def _encode_png(image: Any) -> bytes:
    return _saved(image, "PNG")


def _encode_jpeg(image: Any) -> bytes:
    """Return the file that the image was opened from if it still holds these pixels.

    Encoding a JPEG image once more would lose quality.
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


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "jpeg": _encode_jpeg,
    "pil": _encode_pil,
    "png": _encode_png,
}
