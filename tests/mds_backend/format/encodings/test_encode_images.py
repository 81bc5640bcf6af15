import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdstorm_backend.format.encodings.registry import parse_encoding

Image = pytest.importorskip("PIL.Image")


def encode(encoding: str, value: Any) -> bytes:
    return parse_encoding(encoding).encoder()(value)


def picture(mode: str = "RGB") -> Any:
    pixels = np.arange(16 * 8 * 3, dtype="uint8").reshape(8, 16, 3)
    return Image.fromarray(pixels, "RGB" if mode == "P" else None).convert(mode)


def opened(file: bytes) -> Any:
    return Image.open(io.BytesIO(file))


@pytest.fixture
def jpeg_file(tmp_path: Path) -> Path:
    path = tmp_path / "picture.jpg"
    picture().save(path, quality=30)
    return path


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "LA", "I", "F"])
def test_pil_is_size_mode_and_pixels(mode: str) -> None:
    image = picture(mode)
    head = struct.pack("<III", 16, 8, len(mode)) + mode.encode()
    assert encode("pil", image) == head + image.tobytes()


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_png_holds_the_same_pixels(mode: str) -> None:
    image = picture(mode)
    stored = opened(encode("png", image))
    assert (stored.format, stored.mode, stored.tobytes()) == ("PNG", mode, image.tobytes())


def test_a_jpeg_file_is_stored_as_it_is(jpeg_file: Path) -> None:
    with Image.open(jpeg_file) as image:
        assert encode("jpeg", image) == jpeg_file.read_bytes()
        image.load()
        assert encode("jpeg", image) == jpeg_file.read_bytes()


@pytest.mark.parametrize("change", ["pixel", "size", "mode"])
def test_an_edited_jpeg_file_is_encoded_anew(jpeg_file: Path, change: str) -> None:
    with Image.open(jpeg_file) as image:
        if change == "pixel":
            image.paste((255, 0, 0), (0, 0, 16, 8))
        elif change == "size":
            image.draft("RGB", (8, 4))
        else:
            image.draft("L", (16, 8))
        stored = opened(encode("jpeg", image))
        if change == "pixel":
            red, green, _ = stored.getpixel((5, 5))
            assert (red > 200, green < 50) == (True, True)
        assert (stored.size, stored.mode) == (image.size, image.mode)


def test_a_jpeg_file_that_was_replaced_or_is_gone_is_encoded_anew(jpeg_file: Path) -> None:
    with Image.open(jpeg_file) as image:
        image.load()
        jpeg_file.write_bytes(b"no image")
        assert opened(encode("jpeg", image)).size == (16, 8)
        jpeg_file.unlink()
        assert opened(encode("jpeg", image)).size == (16, 8)


@pytest.mark.parametrize("kind", ["pil", "jpeg", "png"])
def test_lists_hold_their_elements_behind_their_sizes(kind: str) -> None:
    images = [picture(), picture("L")]
    stored = [encode(kind, image) for image in images]
    head = struct.pack("<IIII", 0, 2, *map(len, stored))
    assert encode(f"list[{kind}]", images) == head + b"".join(stored)
    assert encode(f"list[{kind}]", []) == bytes(8)


def test_jpeg_arrays_are_files_behind_their_sizes() -> None:
    files = [b"one", bytearray(b"three")]
    for name in ("jpeg_array", "jpegarray"):
        assert encode(name, files) == struct.pack("<III", 2, 3, 5) + b"onethree"
    assert encode("jpeg_array", ()) == bytes(4)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("pil", None), ("jpeg", "a.jpg"), ("png", np.zeros((2, 2), "uint8")), ("list[pil]", ()),
     ("list[jpeg]", [b"file"]), ("jpeg_array", "text"), ("jpeg_array", ["text"]),
     ("jpeg_array", None), ("bytes", bytearray(b"a")), ("bytes", "a"), ("bytes", None)],
    ids=str,
)  # fmt: skip
def test_values_of_another_type_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(TypeError, match="must"):
        encode(kind, value)


def test_transparency_cannot_become_jpeg() -> None:
    with pytest.raises(OSError, match="RGBA"):
        encode("jpeg", picture("RGBA"))
