"""PNG files that NumPy decodes, and those that are left to Pillow."""

import base64
import io
import struct
import tracemalloc
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from mdstorm_backend.format.encodings import decode_images
from mdstorm_backend.format.encodings.decode_images import image_array, rgb_pixels
from mdstorm_backend.format.encodings.decode_png import png_pixels

MOST = 1 << 20
#: Files that OpenCV 4.10 wrote, and their pixels.
RGB_BY_OPENCV = (
    "iVBORw0KGgoAAAANSUhEUgAAAAUAAAACCAIAAAAfCIEKAAAAFUlEQVQIHWNkYOcTRQKMmQXlokgAADGWA2BgORoxAAAA"
    "AElFTkSuQmCC"
)
GREY16_BY_OPENCV = (
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACEAAAAADoj+WFAAAAFklEQVQIHWNkYNBO105nbDLVTtdJBwARcgMD5i2WEQAAAABJ"
    "RU5ErkJggg=="
)
RGB = (np.arange(30) * 7).astype(np.uint8).reshape(2, 5, 3)
RGB16 = np.random.default_rng(1).integers(0, 1 << 16, (3, 4, 3)).astype(np.uint16)
GREY16 = (np.arange(6) * 11111).astype(np.uint16).reshape(2, 3)


def chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def filtered(pixels: Any, filter_: int = 1) -> bytes:
    """Return the rows of a PNG file, with one filter: 0 (none), 1 (Sub) or 2 (Up)."""
    height = len(pixels)
    stored = pixels.astype(pixels.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1)
    before = np.zeros_like(stored)
    step = stored.shape[1] // pixels.shape[1]
    if filter_ == 1:
        before[:, step:] = stored[:, :-step]
    elif filter_ == 2:
        before[1:] = stored[:-1]
    return np.insert(stored - before, 0, filter_, axis=1).tobytes()


def png(pixels: Any, rows: bytes, *, parts: int = 1, interlace: int = 0) -> bytes:
    """Return a PNG file of the filtered `rows`, whose data is in `parts` chunks."""
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    header = struct.pack(">II5B", width, height, 8 * pixels.itemsize, kind, 0, 0, interlace)
    data = zlib.compress(rows)
    cuts = [len(data) * i // parts for i in range(parts + 1)]
    body = [chunk(b"IDAT", data[start:stop]) for start, stop in pairwise(cuts)]
    return b"".join([b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), *body, chunk(b"IEND", b"")])


def by_pillow(file: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(file)))


@st.composite
def pictures(draw: st.DrawFn) -> Any:
    channels = draw(st.sampled_from([(), (3,)]))
    shape = (draw(st.integers(1, 12)), draw(st.integers(1, 5)), *channels)
    return draw(arrays.arrays(draw(st.sampled_from([np.uint8, np.uint16])), shape))


@given(pictures(), st.integers(1, 4))
def test_sub_filtered_files_are_decoded_to_their_pixels(pixels: Any, parts: int) -> None:
    file = png(pixels, filtered(pixels), parts=parts)
    found = png_pixels(file, None, MOST)
    assert found is not None
    assert found.dtype == pixels.dtype
    assert found.flags.writeable
    np.testing.assert_array_equal(found, pixels)
    if pixels.dtype == np.uint8 or pixels.ndim == 2:  # Pillow reduces 16-bit RGB to 8 bits
        np.testing.assert_array_equal(found, by_pillow(file))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("shape", [(3, 256), (9, 257), (1, 100, 3), (400, 170, 3), (2, 70_000)])
def test_rows_that_are_added_up_in_pairs_are_decoded(shape: tuple[int, ...], dtype: str) -> None:
    limit = np.iinfo(dtype).max
    pixels = np.random.default_rng(4).integers(0, limit, shape, dtype, endpoint=True)
    np.testing.assert_array_equal(png_pixels(png(pixels, filtered(pixels)), None, MOST), pixels)


@pytest.mark.parametrize(("file", "pixels"), [(RGB_BY_OPENCV, RGB), (GREY16_BY_OPENCV, GREY16)])
def test_files_by_opencv_are_decoded_without_pillow(
    monkeypatch: pytest.MonkeyPatch, file: str, pixels: Any
) -> None:
    monkeypatch.setattr(decode_images, "open_image", None)
    data = base64.b64decode(file)
    found = image_array("png", data)
    assert found.dtype == pixels.dtype
    np.testing.assert_array_equal(found, pixels)
    if pixels is RGB:
        np.testing.assert_array_equal(rgb_pixels("png", data), pixels)


@pytest.mark.parametrize("pixels", [RGB, RGB.astype(np.uint16) * 257, GREY16])
def test_pixels_are_decoded_into_output_array_of_their_shape(pixels: Any) -> None:
    file = png(pixels, filtered(pixels))
    out = np.zeros_like(pixels)
    assert png_pixels(file, out, MOST) is out
    np.testing.assert_array_equal(out, pixels)
    for other in (np.zeros((1, 1), np.uint8), np.zeros(pixels.shape, np.float32)):
        assert png_pixels(file, other, MOST) is not other


@pytest.mark.parametrize("filter_", [0, 2])
@pytest.mark.parametrize("pixels", [RGB, RGB16], ids=["8 bits", "16 bits"])
def test_files_with_other_filters_are_decoded_elsewhere(pixels: Any, filter_: int) -> None:
    file = png(pixels, filtered(pixels, filter_))
    assert png_pixels(file, None, MOST) is None
    out = np.zeros_like(pixels)
    assert image_array("png", file, out) is out
    for found in (out, image_array("png", file)):
        assert found.dtype == pixels.dtype
        np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("row", [0, 1, 7, 8, 19])
def test_file_with_another_filter_in_one_row_is_left_to_pillow(row: int) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (20, 5, 3)).astype(np.uint8)
    parts = [filtered(pixels[i : i + 1], 0 if i == row else 1) for i in range(20)]
    file = png(pixels, b"".join(parts))
    assert png_pixels(file, None, MOST) is None
    np.testing.assert_array_equal(image_array("png", file), pixels)


def test_only_the_first_rows_of_files_with_other_filters_are_decompressed() -> None:
    pixels = np.zeros((4096, 1024), np.uint8)
    file = png(pixels, filtered(pixels, 0))
    tracemalloc.start()
    try:
        assert png_pixels(file, None, 8 * MOST) is None
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("before", [b"IDAT", b"IEND"])
def test_files_with_further_chunks_are_left_to_pillow(before: bytes) -> None:
    transparent = chunk(b"tRNS", struct.pack(">3H", *RGB[1, 2]))
    file = png(RGB, filtered(RGB))
    position = file.index(before) - 4
    file = file[:position] + transparent + file[position:]
    assert png_pixels(file, None, MOST) is None
    np.testing.assert_array_equal(image_array("png", file), by_pillow(file))


def test_data_that_ends_with_an_empty_block_is_decoded() -> None:
    file = png(RGB, filtered(RGB))
    packer = zlib.compressobj()
    data = packer.compress(filtered(RGB)) + packer.flush(zlib.Z_FULL_FLUSH) + packer.flush()
    file = file.replace(chunk(b"IDAT", zlib.compress(filtered(RGB))), chunk(b"IDAT", data))
    np.testing.assert_array_equal(png_pixels(file, None, MOST), RGB)


def test_images_over_the_limit_raise_error_before_decompression() -> None:
    file = png(RGB, b"nothing to decompress")
    with pytest.raises(ValueError, match="5 by 2 pixels would take 30 bytes, but only 29"):
        png_pixels(file, None, 29)
    with pytest.raises(ValueError, match="but only 29"):
        png_pixels(file[:33], None, 29)  # the header, which is checked first
    deep = png(GREY16, b"")
    with pytest.raises(ValueError, match="would take 12 bytes, but only 11"):
        png_pixels(deep, None, 11)


def test_grey_and_16_bit_files_become_8_bit_rgb() -> None:
    grey = RGB[..., 0]
    found = rgb_pixels("png", png(grey, filtered(grey)))
    np.testing.assert_array_equal(found, np.stack([grey] * 3, -1))
    deep = RGB.astype(np.uint16) * 257
    np.testing.assert_array_equal(rgb_pixels("png", png(deep, filtered(deep))), RGB)


def test_resized_pixels_equal_those_of_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (40, 30, 3)).astype(np.uint8)
    file = png(pixels, filtered(pixels))
    found = [rgb_pixels("png", file, size) for size in ((20, 20), (40, 30), (16, 8))]
    monkeypatch.setattr(decode_images, "png_pixels", lambda *_: None)
    for pixels, size in zip(found, ((20, 20), (40, 30), (16, 8)), strict=True):
        np.testing.assert_array_equal(pixels, rgb_pixels("png", file, size))


@pytest.mark.parametrize(
    "file",
    [
        png(RGB, filtered(RGB)[:-1]),
        png(RGB, filtered(RGB) + b"\0"),
        png(RGB, filtered(RGB), interlace=1),
        png(RGB, filtered(RGB))[:-12],
        png(RGB, filtered(RGB))[:-20],
        png(RGB, filtered(RGB))[:40],
        png(RGB, filtered(RGB))[:20],
        png(RGB, filtered(RGB)).replace(chunk(b"IEND", b""), b""),
        png(RGB, filtered(RGB)).replace(b"IHDR\0\0\0\5", b"IHDR\0\0\0\4"),
        png(RGB[:0], b""),
        b"",
    ],
)
def test_damaged_files_are_left_to_pillow(file: bytes) -> None:
    assert png_pixels(file, None, MOST) is None


@pytest.mark.parametrize("position", [29, -17])  # in the checksums of the header and of the pixels
def test_wrong_checksums_leave_the_file_to_pillow(position: int) -> None:
    file = bytearray(png(RGB, filtered(RGB)))
    file[position] ^= 1
    assert png_pixels(bytes(file), None, MOST) is None


def test_data_that_exceeds_the_stated_size_is_not_decompressed() -> None:
    file = png(RGB, bytes(16 << 20))
    tracemalloc.start()
    try:
        assert png_pixels(file, None, MOST) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
