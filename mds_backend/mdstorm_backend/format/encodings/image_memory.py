"""Memory for decoded images: the limit on its size, and output arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.errors import InvalidArgumentError

#: Default size limit for a decoded image in bytes; Pillow warns about RGB images above this size.
MAX_IMAGE_BYTES = 256 << 20


def check_size(width: int, height: int, bits: int, most: int) -> None:
    """Raise InvalidArgumentError if an image's pixels would take up more than `most` bytes.

    Parameters
    ----------
    width, height : int
        Size of the image as stated in the file.
    bits : int
        Bits per pixel.
    """
    size = width * height * bits // 8
    if size > most:
        raise InvalidArgumentError(
            f"{width} by {height} pixels would take {size} bytes, but only {most} are allowed: to "
            "decode the image, pass a larger max_image_bytes= together with decode=, or declare a "
            "large enough shape for its field in the Unischema"
        )


def output_array(
    out: npt.NDArray[Any] | None, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """Return `out` if it has the given shape and dtype, or else a new array."""
    if out is None or out.shape != shape or out.dtype != dtype:
        return np.empty(shape, dtype)
    return out
