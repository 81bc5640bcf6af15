"""Decoding columns of encoded images to pixel arrays with ``decode=`` and ``size=``."""

import io
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import (
    ArgumentTypeError,
    CorruptDatasetError,
    InvalidArgumentError,
    MDStormError,
    MissingDependencyError,
    StateMismatchError,
    UnsupportedEncodingError,
)
from mdstorm_backend.format import Batch
from mdstorm_backend.format.encodings import decode_images
from mdstorm_backend.read import decoded_images

ROWS = 40
ORDERS = pytest.mark.parametrize(
    "order", [None, ExactOrder(shuffle_rows=True)], ids=["elastic", "exact"]
)


def file(number: int, height: int = 24) -> bytes:
    """A grey image whose brightness is the number: PNG for odd numbers, JPEG for even ones."""
    stream = io.BytesIO()
    image = Image.new("RGB", (32, height), (number, number, number))
    image.save(stream, "PNG" if number % 2 else "JPEG")
    return stream.getvalue()


def write(folder: Path, images: Sequence[Any], encoding: str = "bytes") -> str:
    columns = {"id": "int", "image": encoding}
    with MDSWriter(out=str(folder), columns=columns, size_limit=6_000) as writer:
        for number, value in enumerate(images):
            writer.write({"id": number, "image": value})
    return str(folder)


@pytest.fixture
def local(tmp_path: Path) -> str:
    return write(tmp_path, [file(number) for number in range(ROWS)])


def loader(local: str, num_workers: int = 0, **options: Any) -> StreamingDataLoader[Any]:
    dataset = StreamingDataset(local=local, batch_size=8, **{"decode": "image", **options})
    return StreamingDataLoader(dataset, batch_size=8, num_workers=num_workers)


def check(batch: Any, shape: tuple[int, int]) -> int:
    """Check that the pixels in a batch belong to its rows, and return the number of rows."""
    pixels = np.asarray(batch["image"])
    assert (pixels.dtype, pixels.shape) == (np.uint8, (len(batch["id"]), *shape, 3))
    brightness = pixels.mean(axis=(1, 2, 3))
    np.testing.assert_allclose(brightness, np.asarray(batch["id"]), atol=1)
    return len(pixels)


@pytest.mark.matrix
@ORDERS
@pytest.mark.parametrize(
    ("size", "shape"), [(None, (24, 32)), (16, (16, 16)), ((8, 20), (8, 20)), ([9, 9], (9, 9))]
)
def test_batches_contain_the_pixels_of_their_rows(
    local: str, order: Any, size: Any, shape: tuple[int, int]
) -> None:
    batches = loader(local, decode=["image"], size=size, order=order)
    assert sum(check(batch, shape) for batch in batches) == ROWS
    shown = "" if size is None else " as {}x{}".format(*shape)
    assert f"decode=image{shown}" in repr(batches)


@ORDERS
def test_state_resumes_with_remaining_rows_if_workers_decode_images(local: str, order: Any) -> None:
    decoding = loader(local, 2, size=16, order=order)
    batches = iter(decoding)
    seen = [next(batches)["id"].tolist() for _ in range(2)]
    state = decoding.state_dict()
    rest = loader(local, decode=None, order=order)  # the state does not depend on decoding
    rest.load_state_dict(state)
    seen += [batch["id"].tolist() for batch in rest]
    assert sorted(number for batch in seen for number in batch) == list(range(ROWS))


@pytest.mark.parametrize("encoding", ["jpeg", "png", "pil"])
def test_image_columns_are_decoded_to_rgb(tmp_path: Path, encoding: str) -> None:
    grey = [Image.new("L", (32, 24), number) for number in range(ROWS)]
    local = write(tmp_path, grey, encoding)
    assert sum(check(batch, (12, 16)) for batch in loader(local, size=(12, 16))) == ROWS


def in_format(name: str) -> bytes:
    """A grey image of brightness 100 in a format of Pillow's."""
    Image.init()
    if name not in Image.SAVE:
        pytest.skip(f"this version of Pillow has no {name}")
    stream = io.BytesIO()
    Image.new("RGB", (32, 24), (100, 100, 100)).save(stream, name)
    return stream.getvalue()


#: Beginnings of files in formats that need a plugin or another program, and the formats.
UNSUPPORTED = {
    b"\0\0\0\x1cftypheic\0\0\0\0mif1heic": "HEIF",
    b"\0\0\0\x1cftypmif1\0\0\0\0mif1heic": "HEIF",
    b"\xff\x0a" + bytes(30): "JXL",
    b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(30): "JXL",
    in_format("EPS"): "EPS",
}


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.parametrize(
    ("stored", "name"),
    UNSUPPORTED.items(),
    ids=[f"{name}{n}" for n, name in enumerate(UNSUPPORTED.values())],
)
def test_image_in_unsupported_format_is_never_skipped_as_damaged(
    tmp_path: Path, stored: bytes, name: str, on_corrupt: str
) -> None:
    local = write(tmp_path, [file(0), b"damaged", stored] if on_corrupt == "skip" else [stored])
    batches = loader(local, size=16, on_corrupt=on_corrupt)
    with pytest.raises(UnsupportedEncodingError, match=f"'image'.*unsupported format {name}"):
        list(batches)


@pytest.mark.parametrize("name", ["AVIF", "WEBP"])
def test_image_without_decoder_in_pillow_is_unsupported_rather_than_damaged(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = write(tmp_path, [in_format(name)])
    monkeypatch.delitem(Image.SAVE, name)
    monkeypatch.setattr(Image, "ID", [known for known in Image.ID if known != name])
    with pytest.raises(UnsupportedEncodingError, match=f"unsupported format {name}"):
        list(loader(local, on_corrupt="skip"))


def test_empty_file_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(CorruptDatasetError, match="column 'image' of sample 0 of "):
        list(loader(write(tmp_path, [b""]), size=16))


def test_truncated_avif_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(CorruptDatasetError, match="cannot be decoded"):
        list(loader(write(tmp_path, [in_format("AVIF")[:100]])))


class Darker:
    """A transform that halves pixel values."""

    columns = ("id", "image")

    def __call__(self, batch: Batch) -> Batch:
        assert isinstance(batch["image"], np.ndarray)
        return {**batch, "image": batch["image"] // 2}  # type: ignore[operator]


@ORDERS
def test_transform_gets_decoded_pixels_in_requested_size(local: str, order: Any) -> None:
    for batch in loader(local, size=16, transform=Darker(), order=order):
        batch["image"] *= 2
        check({**batch, "id": batch["id"] // 2 * 2}, (16, 16))


class Brighter(Darker):
    """Another transform."""


def test_state_names_transform_of_decoded_images_and_another_one_is_refused(local: str) -> None:
    options: dict[str, Any] = {"size": 16, "order": ExactOrder()}
    darker = loader(local, transform=Darker(), **options)
    state = next(darker.state_dict() for _ in darker)
    assert state["mdstorm"]["transform"] == "Darker"
    with pytest.raises(StateMismatchError, match="transform: 'Darker' there, 'Brighter' here"):
        loader(local, transform=Brighter(), **options).load_state_dict(state)
    state["mdstorm"]["transform"] = "_DecodedFirst"  # as in states of mdstorm 0.1
    darker.load_state_dict(state)
    assert next(iter(darker))["id"].tolist() == list(range(8, 16))
    with pytest.raises(StateMismatchError, match="transform: '_DecodedFirst' there, None here"):
        loader(local, **options).load_state_dict(state)


class Odd:
    """A transform that leaves out every other row without changing any values."""

    columns = ("id", "image")
    unchanged = frozenset(columns)

    def __call__(self, batch: Batch) -> Batch:
        assert not isinstance(batch["image"], np.ndarray)
        return {name: values[1::2] for name, values in batch.items()}


@ORDERS
def test_rows_that_a_filter_leaves_out_are_not_decoded(
    local: str, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Any] = []

    def decode(*given: Any) -> Any:
        decoded.append(given)
        return decode_images.rgb_pixels(*given)

    monkeypatch.setattr(decoded_images, "rgb_pixels", decode)
    rows = sum(len(batch["id"]) for batch in loader(local, transform=Odd(), order=order))
    assert 0 < rows < ROWS
    assert len(decoded) == rows


def test_samples_are_decoded_like_batches(local: str) -> None:
    dataset = StreamingDataset(local=local, batch_size=8, decode="image", size=16)
    for sample in (dataset[5], next(iter(dataset))):
        check({name: value[None] for name, value in sample.items()}, (16, 16))
    assert len(dataset) == ROWS


@ORDERS
def test_images_of_different_shapes_in_a_batch_raise_error_without_size(
    tmp_path: Path, order: Any
) -> None:
    by_batch = write(tmp_path / "by_batch", [file(i, height=8 + i // 8) for i in range(ROWS)])
    heights = [len(batch["image"][0]) for batch in loader(by_batch, order=ExactOrder())]
    assert heights == [8, 9, 10, 11, 12]
    one = write(tmp_path / "one", [file(i, height=24 + (i == 11)) for i in range(ROWS)])
    with pytest.raises(InvalidArgumentError, match=r"sample 11 of .* 25 by 32 pixels.*pass size="):
        list(loader(one, order=ExactOrder()))
    assert sum(check(batch, (24, 24)) for batch in loader(one, size=24, order=order)) == ROWS


DAMAGED = [file(i) if i != 29 else file(i)[:70] for i in range(ROWS)]


@pytest.mark.matrix
@ORDERS
@pytest.mark.parametrize("transform", [None, Darker()], ids=["", "transform"])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_damaged_image_raises_error_naming_its_sample(
    tmp_path: Path, order: Any, transform: Any, num_workers: int
) -> None:
    options = {"size": 16, "transform": transform, "order": order}
    with pytest.raises(CorruptDatasetError, match="column 'image' of sample 29 of "):
        list(loader(write(tmp_path, DAMAGED), num_workers, **options))


def test_damaged_image_after_a_filter_raises_error_naming_its_batch(tmp_path: Path) -> None:
    batches = loader(write(tmp_path, DAMAGED), transform=Odd(), order=ExactOrder(), size=16)
    with pytest.raises(
        CorruptDatasetError, match=r"column 'image' of row \d+ among \d+ rows read from "
    ):
        list(batches)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"decode": "picture"}, InvalidArgumentError, "'picture', which is not read"),
        ({"decode": ["image", "id"]}, InvalidArgumentError, "'id', which is of type int"),
        ({"columns": ["id"]}, InvalidArgumentError, "'image', which is not read"),
        ({"decode": 3}, ArgumentTypeError, "decode must be a list"),
        ({"size": 0}, InvalidArgumentError, "size must be"),
        ({"size": "224"}, InvalidArgumentError, "size must be"),
        ({"size": (1, 2, 3)}, InvalidArgumentError, "size must be"),
        ({"size": 16, "decode": None}, InvalidArgumentError, "without decode"),
    ],
)
def test_invalid_decode_arguments_raise_error(
    local: str, options: Any, error: type[MDStormError], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(loader(local, **options))


def test_missing_pillow_raises_error_with_install_command(
    local: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = MissingDependencyError('pip install "mdstorm[images]"', extra="images")
    monkeypatch.setattr(decode_images, "image_module", Mock(side_effect=error))
    with pytest.raises(MissingDependencyError, match=r"mdstorm\[images\]"):
        list(loader(local, size=16))


def test_image_above_max_image_bytes_raises_error(local: str) -> None:
    for num_workers in (0, 1):
        (batch, *_) = loader(local, num_workers, max_image_bytes=24 * 32 * 3)
        check(batch, (24, 32))
        for on_corrupt in ("raise", "skip"):
            limited = loader(local, num_workers, max_image_bytes=2303, on_corrupt=on_corrupt)
            with pytest.raises(InvalidArgumentError, match=r"'image' of sample .* only 2303 are"):
                next(iter(limited))
    with pytest.raises(InvalidArgumentError, match="max_image_bytes"):
        loader(local, max_image_bytes=0)


def test_cropped_image_keeps_its_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (16, 19, 3), np.uint8)
    local = write(tmp_path, [Image.fromarray(pixels)], "png")
    np.testing.assert_array_equal(next(iter(loader(local, size=16)))["image"][0], pixels[:, 1:17])


def claims(width: int, height: int) -> bytes:
    """A 16 by 16 pixel JPEG whose header states a different size."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 16)).save(stream, "JPEG")
    content = bytearray(stream.getvalue())
    start = content.index(b"\xff\xc0") + 5
    content[start : start + 4] = struct.pack(">HH", height, width)
    return bytes(content)


def with_text(size: int) -> bytes:
    """A PNG with a compressed text chunk that expands to `size` bytes."""
    stream, text = io.BytesIO(), PngInfo()
    text.add_text("key", " " * size, zip=True)
    Image.new("RGB", (4, 4)).save(stream, "PNG", pnginfo=text)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("bomb", "error"),
    [
        (claims(65_500, 65_500), InvalidArgumentError),
        (with_text(64 << 20), CorruptDatasetError),
    ],
    ids=["jpeg", "png"],
)
@pytest.mark.parametrize("options", [{"size": 8}, {"decode": None}], ids=["decode", "column"])
def test_small_image_files_that_state_a_large_size_raise_error(
    tmp_path: Path, bomb: bytes, error: type[Exception], options: Any
) -> None:
    encoding = "bytes" if "size" in options else "jpeg"
    assert len(bomb) < 1 << 17
    local = write(tmp_path, [bomb])
    index = Path(local, "index.json")
    stated = json.loads(index.read_text("utf-8"))
    stated["shards"][0]["column_encodings"] = ["int", encoding]
    index.write_text(json.dumps(stated), "utf-8")
    with pytest.raises(error, match="'image'"):
        list(loader(local, **options))
