"""The limit on the size of a decoded image."""

from __future__ import annotations

#: Default size limit for a decoded image in bytes; Pillow warns about RGB images above this size.
MAX_IMAGE_BYTES = 256 << 20


def check_size(width: int, height: int, bits: int, most: int) -> None:
    """Raise ValueError if an image's pixels would take up more than `most` bytes.

    Parameters
    ----------
    width, height : int
        Size of the image as stated in the file.
    bits : int
        Bits per pixel.
    """
    size = width * height * bits // 8
    if size > most:
        raise ValueError(
            f"{width} by {height} pixels would take {size} bytes, but only {most} are allowed: to "
            "decode the image, pass max_image_bytes with decode, or give its field a shape"
        )
