"""How images are stored, and how their pixels are read."""

import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mdstorm_backend.errors import InvalidArgumentError, MissingDependencyError
from mdstorm_backend.format.encodings import decode_images
from mdstorm_backend.format.encodings.decode_images import image_array, open_image, rgb_pixels
from mdstorm_backend.format.encodings.registry import parse_encoding


@pytest.fixture(params=["pillow", "simplejpeg"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pillow":
        monkeypatch.setattr(decode_images, "turbo_module", lambda: None)
    else:
        pytest.importorskip("simplejpeg")
    return str(request.param)


def picture(mode: str, width: int = 40, height: int = 24) -> Image.Image:
    """A smooth picture, which JPEG compression hardly changes."""
    y, x = np.mgrid[:height, :width]
    colours = np.stack([x * 4, y * 6, 255 - x * 3, 200 - y * 2], -1).astype(np.uint8)
    rgba = Image.frombytes("RGBA", (width, height), colours.tobytes())
    return rgba.convert(mode) if mode in ("RGBA", "LA") else rgba.convert("RGB").convert(mode)


def file(image: Image.Image, format_: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format_, **options)
    return stream.getvalue()


def raw(image: Image.Image) -> bytes:
    mode = image.mode.encode()
    return struct.pack("<III", *image.size, len(mode)) + mode + image.tobytes()


def encode(encoding: str, value: Any) -> bytes:
    return parse_encoding(encoding).encoder()(value)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    ("mode", "shape"), [("L", (24, 40)), ("RGB", (24, 40, 3)), ("CMYK", (24, 40, 3))]
)
def test_jpegs_are_decoded_to_grey_or_rgb(decoder: str, mode: str, shape: tuple[int, ...]) -> None:
    data = file(picture(mode), "JPEG", quality=95)
    pixels = image_array("jpeg", data)
    assert pixels.dtype == np.uint8
    assert pixels.shape == shape
    assert pixels.flags.writeable
    expected = np.asarray(opened(data).convert("L" if mode == "L" else "RGB"))
    assert np.abs(pixels.astype(int) - expected.astype(int)).max() <= 2


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "1", "P"])
def test_pngs_keep_their_pixels(mode: str) -> None:
    image = picture(mode)
    data = encode("png", image)
    assert (opened(data).format, opened(data).mode) == ("PNG", mode)
    pixels = image_array("png", data)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, image.convert({"1": "L", "P": "RGB"}.get(mode, mode)))
    assert pixels.flags.writeable


def test_pixels_of_a_16_bit_grey_png_are_unchanged() -> None:
    image = Image.frombytes("I;16", (2, 1), np.array([300, 65535], "<u2").tobytes())
    pixels = image_array("png", file(image, "PNG"))
    assert pixels.dtype == np.uint16
    assert pixels.tolist() == [[300, 65535]]


def test_palette_image_with_transparency_becomes_rgba() -> None:
    image = picture("P")
    pixels = image_array("png", file(image, "PNG", transparency=bytes(256)))
    assert pixels.shape == (24, 40, 4)
    assert not pixels[..., 3].any()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F"])
def test_raw_images_read_back_unchanged(mode: str) -> None:
    image = picture(mode)
    assert encode("pil", image) == raw(image)
    found = open_image("pil", raw(image))
    assert (found.mode, found.size) == (mode, image.size)
    assert found.tobytes() == image.tobytes()
    pixels = image_array("pil", raw(image))
    assert pixels.shape[:2] == (24, 40)
    assert pixels.flags.writeable
    assert pixels.dtype == {"I": np.int32, "F": np.float32}.get(mode, np.uint8)
    if mode in ("L", "LA", "RGB", "RGBA", "I", "F"):
        assert pixels.tobytes() == image.tobytes()


def test_image_files_are_decoded_on_first_access() -> None:
    data = file(picture("RGB", 300, 200), "JPEG", quality=95)
    image = open_image("jpeg", data[: len(data) * 3 // 4])
    assert (image.format, image.size) == ("JPEG", (300, 200))
    with pytest.raises(OSError, match="truncated"):
        image.load()


@pytest.mark.parametrize("fits", [True, False])
def test_pixels_are_decoded_into_given_array_if_they_fit(decoder: str, fits: bool) -> None:
    place = np.zeros((24, 40, 3) if fits else (24, 41, 3), np.uint8)
    for kind, data in (
        ("jpeg", file(picture("RGB"), "JPEG")),
        ("png", file(picture("RGB"), "PNG")),
        ("pil", raw(picture("RGB"))),
    ):
        place[:] = 0
        pixels = image_array(kind, data, place)
        assert (pixels is place) is fits
        np.testing.assert_array_equal(pixels, image_array(kind, data))
        assert place.any() == fits


ROTATED = Image.Exif()
ROTATED[0x0112] = 6
RGB = [
    *[("JPEG", mode, {"quality": 95}) for mode in ("L", "RGB", "CMYK")],
    *[("PNG", mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")],
    ("PNG", "P", {"transparency": bytes(range(256))}),
    ("PNG", "RGB", {"transparency": (0, 0, 255)}),
    ("WEBP", "RGB", {"quality": 95}),
    *(
        ("JPEG", "RGB", {"quality": 95, **options})
        for options in ({"exif": ROTATED}, {"progressive": True}, {"subsampling": "4:4:4"})
    ),
]


def distance(one: Any, other: Any) -> int:
    return int(np.abs(np.asarray(one).astype(int) - np.asarray(other).astype(int)).max())


@pytest.mark.matrix
@pytest.mark.parametrize(("format_", "mode", "options"), RGB)
@pytest.mark.parametrize("size", [None, (24, 40), (12, 12), (21, 35), (20, 13), (50, 60)])
def test_image_in_any_format_becomes_rgb_of_requested_size(
    decoder: str, format_: str, mode: str, options: dict[str, Any], size: tuple[int, int] | None
) -> None:
    data = file(picture(mode), format_, **options)
    image = opened(data).convert("RGBA").convert("RGB")  # without EXIF rotation
    if size is not None:
        scale = min(40 / size[1], 24 / size[0])
        x, y = (40 - size[1] * scale) / 2, (24 - size[0] * scale) / 2
        image = image.resize(size[::-1], Image.Resampling.BILINEAR, (x, y, 40 - x, 24 - y))
    place = np.zeros((*(size or (24, 40)), 3), np.uint8)
    assert rgb_pixels("bytes", data, size, place) is place
    # Images with a palette or only two colours have sharp edges, so they must not be decoded at
    # a reduced scale.
    assert distance(place, image) <= (3 if mode in "1P" or size is None else 12)
    elsewhere = np.zeros((1, 1, 3), np.uint8)
    np.testing.assert_array_equal(rgb_pixels("bytes", data, size, elsewhere), place)


def test_16_bit_grey_and_raw_images_become_rgb() -> None:
    grey = Image.frombytes("I;16", (2, 1), np.array([511, 65535], "<u2").tobytes())
    assert rgb_pixels("png", file(grey, "PNG")).tolist() == [[[1] * 3, [255] * 3]]
    assert distance(rgb_pixels("pil", raw(picture("RGBA"))), picture("RGB")) == 0
    assert rgb_pixels("pil", raw(picture("L")), (8, 8)).shape == (8, 8, 3)


def test_large_jpeg_is_decoded_at_smallest_scale_covering_requested_size(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    resize = Image.Image.resize

    def recorded(image: Image.Image, *arguments: Any) -> Image.Image:
        sizes.append(image.size)
        return resize(image, *arguments)

    monkeypatch.setattr(Image.Image, "resize", recorded)
    data = file(picture("RGB", 640, 480), "JPEG")
    assert rgb_pixels("jpeg", data, (224, 224)).shape == (224, 224, 3)
    assert sizes == [(320, 240)]


JPEG, PNG = file(picture("RGB"), "JPEG"), file(picture("RGB"), "PNG")
DAMAGED = {
    "nothing": b"",
    "text": b"no image at all",
    "start of a jpeg": JPEG[:2],
    "half a jpeg": JPEG[: len(JPEG) // 3],
    "half a png": PNG[: len(PNG) // 3],
    "a png with other bytes": PNG[:40] + bytes(200) + PNG[240:],
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_image_file_raises_error(decoder: str, data: bytes) -> None:
    for kind in ("jpeg", "png"):
        for decode in (image_array, rgb_pixels):
            with pytest.raises((OSError, ValueError, SyntaxError)):
                decode(kind, data)


def test_image_header_with_absurd_size_raises_error(decoder: str) -> None:
    jpeg = bytearray(JPEG)
    start = jpeg.index(b"\xff\xc0")
    jpeg[start + 5 : start + 9] = b"\xff\xff\xff\xff"
    with pytest.raises(InvalidArgumentError, match="MAX_IMAGE_PIXELS"):
        image_array("jpeg", bytes(jpeg))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x01\0\0\0"),
        struct.pack("<III", 2, 2, 1) + b"L" + bytes(3),
        struct.pack("<III", 2, 2, 1) + b"L" + bytes(5),
        struct.pack("<III", 1 << 31, 1 << 31, 1) + b"L",
        struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 3) + b"RGB",
        struct.pack("<III", 1, 1, 0xFFFFFFFF) + b"L\0",
        struct.pack("<III", 1, 1, 2) + b"XY\0",
        struct.pack("<III", 1, 1, 2) + b"\xff\xfe\0",
        struct.pack("<III", 9, 1, 1) + b"1\0",
    ],
)
def test_raw_image_with_wrong_size_raises_error(data: bytes) -> None:
    for decode in (open_image, image_array):
        with pytest.raises((ValueError, struct.error)):
            decode("pil", data)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x01\0\0\0", b"\xff\xff\xff\xff"),
        struct.pack("<II", 1, 3) + b"ab",
        struct.pack("<II", 1, 1) + b"ab",
        struct.pack("<III", 2, 0xFFFFFFFF, 3) + b"ab",
    ],
)
def test_image_list_with_wrong_sizes_raises_error(data: bytes) -> None:
    for reserved, start in ((0, b""), (4, bytes(4)), (4, b"\1\0\0\0")):
        if data or start:
            with pytest.raises((ValueError, struct.error)):
                decode_images.split_images(start + data, reserved)


def test_missing_pillow_raises_error_with_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "mdstorm\[images\]"'):
        open_image("png", b"")


def test_pixels_of_raw_images_and_jpegs_are_read_without_pillow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("simplejpeg")
    data = file(picture("L"), "JPEG")
    monkeypatch.setattr(decode_images, "image_module", lambda: pytest.fail("Pillow was requested"))
    assert image_array("jpeg", data).shape == (24, 40)
    assert image_array("pil", raw(picture("RGB"))).shape == (24, 40, 3)


def test_image_that_needs_too_much_memory_raises_error() -> None:
    for mode, size in (("RGB", 300), ("P", 300), ("L", 100), ("RGBA", 400)):
        data = file(Image.new(mode, (10, 10)), "PNG")
        for decode in (image_array, rgb_pixels):
            with pytest.raises(
                ValueError, match=f"take {size} bytes, but only {size - 1} are allowed"
            ):
                decode("png", data, most=size - 1)
            assert decode("png", data, most=size).shape[:2] == (10, 10)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_image_over_256_mib_raises_error(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    data = file(Image.new("RGB", (9_000, 10_000)), kind, compress_level=1)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)  # else Pillow warns
    with pytest.raises(ValueError, match="9000 by 10000 pixels would take 270000000 bytes"):
        rgb_pixels(kind, data)


@pytest.fixture
def jpeg_file(tmp_path: Path) -> Path:
    path = tmp_path / "picture.jpg"
    picture("RGB", 16, 8).save(path, quality=30)
    return path


def test_unmodified_jpeg_file_is_stored_byte_for_byte(jpeg_file: Path) -> None:
    with Image.open(jpeg_file) as image:
        assert encode("jpeg", image) == jpeg_file.read_bytes()
        image.load()
        assert encode("jpeg", image) == jpeg_file.read_bytes()


@pytest.mark.parametrize("change", ["pixel", "size", "mode"])
def test_modified_jpeg_image_is_encoded_again(jpeg_file: Path, change: str) -> None:
    with Image.open(jpeg_file) as image:
        if change == "pixel":
            image.paste((255, 0, 0), (0, 0, 16, 8))
        elif change == "size":
            image.draft("RGB", (8, 4))
        else:
            image.draft("L", (16, 8))
        stored = opened(encode("jpeg", image))
        if change == "pixel":
            assert distance(stored, image) < 50
        assert (stored.size, stored.mode) == (image.size, image.mode)


def test_jpeg_whose_file_was_replaced_is_encoded_again(jpeg_file: Path) -> None:
    with Image.open(jpeg_file) as image:
        image.load()
        jpeg_file.write_bytes(b"no image")
        assert opened(encode("jpeg", image)).size == (16, 8)
        jpeg_file.unlink()
        assert opened(encode("jpeg", image)).size == (16, 8)


@pytest.mark.parametrize("kind", ["pil", "jpeg", "png"])
def test_encoded_list_has_sizes_before_elements(kind: str) -> None:
    images = [picture("RGB"), picture("L")]
    stored = [encode(kind, image) for image in images]
    head = struct.pack("<IIII", 0, 2, *map(len, stored))
    assert encode(f"list[{kind}]", images) == head + b"".join(stored)
    assert encode(f"list[{kind}]", []) == bytes(8)


def test_encoded_jpeg_list_has_sizes_before_files() -> None:
    files = [b"one", bytearray(b"three")]
    for name in ("jpeg_array", "jpegarray"):
        assert encode(name, files) == struct.pack("<III", 2, 3, 5) + b"onethree"
    assert encode("jpeg_array", ()) == bytes(4)


def test_encoding_transparency_as_jpeg_raises_error() -> None:
    with pytest.raises(OSError, match="RGBA"):
        encode("jpeg", picture("RGBA"))
