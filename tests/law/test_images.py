"""Images in every format and mode that Pillow writes are decoded to the pixels that Pillow reads.

Files in formats that it cannot read are unsupported, never damaged, and shortened files are damaged
or unsupported. No other error is raised, in single samples, batches and readers.
"""

from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mdstorm import make_batch_reader
from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import CorruptDatasetError, UnsupportedEncodingError

pytestmark = pytest.mark.filterwarnings("ignore:.*image format is deprecated:DeprecationWarning")
HEIGHT, WIDTH = 9, 13
#: Files that Pillow does not read again without other programs.
WITHOUT_READER = {"EPS", "PALM", "PDF"}


def images() -> dict[str, Image.Image]:
    """The same picture in each mode of Pillow; in the modes of numbers, with other pixels."""
    draw = np.random.default_rng(1)
    colors = Image.fromarray(draw.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8))
    grey, wide = colors.convert("L"), draw.integers(0, 1 << 16, (HEIGHT, WIDTH), np.uint16)
    direct = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV")
    found = {mode: colors.convert(mode) for mode in direct}
    found |= {mode: grey.convert(mode) for mode in ("I", "F", "PA")}
    return {**found, "I;16": Image.fromarray(wide)}


@cache
def files() -> dict[tuple[str, str], bytes]:
    """Return a file in each format that Pillow reads and writes, and each mode that it has."""
    Image.init()
    found = {}
    for format_ in sorted(Image.SAVE.keys() & Image.OPEN.keys() - WITHOUT_READER):
        for mode, image in images().items():
            if format_ == "ICNS" and mode != "RGB":  # has large images of all sizes
                continue
            stream = BytesIO()
            try:
                image.save(stream, format_)
                Image.open(BytesIO(stream.getvalue())).load()  # older versions cannot read all
            except (OSError, ValueError, KeyError):  # the format does not have the mode
                continue
            found[format_, mode] = stream.getvalue()
    return found


def expected(file: bytes) -> Any:
    image = Image.open(BytesIO(file))
    is_wide = image.mode == "I" and image.format == "PNG"  # as older versions of Pillow open it
    if is_wide or image.mode.startswith("I;16"):  # of which Pillow would keep only values below 256
        return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, axis=2)
    return np.asarray(image.convert("RGB"))


def write(folder: Path, contents: list[bytes]) -> str:
    with MDSWriter(columns={"id": "int64", "image": "bytes"}, out=str(folder)) as writer:
        for number, content in enumerate(contents):
            writer.write({"id": number, "image": content})
    return str(folder)


def dataset(url: str) -> StreamingDataset:
    return StreamingDataset(local=url, decode="image", order=ExactOrder())


def test_decoded_images_have_the_pixels_that_pillow_reads(tmp_path: Path) -> None:
    wanted = {kind: expected(file) for kind, file in files().items()}
    samples = dataset(write(tmp_path / "all", list(files().values())))
    wrong = [
        kind
        for n, kind in enumerate(files())
        if not np.array_equal(samples[n]["image"], wanted[kind])
    ]
    assert wrong == []
    # Batches need one shape, and some formats have their own sizes.
    alike = [kind for kind, pixels in wanted.items() if pixels.shape == (HEIGHT, WIDTH, 3)]
    url = write(tmp_path / "alike", [files()[kind] for kind in alike])
    (batch,) = StreamingDataLoader(dataset(url), batch_size=len(alike))
    with make_batch_reader(f"file://{url}", decode="image", shuffle_row_groups=False) as reader:
        read = [np.asarray(image) for rows in reader for image in rows.image]
    for number, kind in enumerate(alike):
        np.testing.assert_array_equal(batch["image"][number], wanted[kind], err_msg=str(kind))
        np.testing.assert_array_equal(read[number], wanted[kind], err_msg=str(kind))


@pytest.mark.parametrize("part", [0.05, 0.5])
def test_shortened_image_is_damaged_or_unsupported(part: float, tmp_path: Path) -> None:
    contents = [file[: max(int(len(file) * part), 1)] for file in files().values()]
    samples, found = dataset(write(tmp_path, contents)), set[str]()
    for number, (format_, mode) in enumerate(files()):
        try:
            pixels = samples[number]["image"]
        except (CorruptDatasetError, UnsupportedEncodingError) as error:
            found.add(type(error).__name__ if "column 'image'" in str(error) else f"{error}")
        else:  # formats without an end show fewer rows, or black ones
            assert pixels.dtype == np.uint8, (format_, mode)
    assert found <= {"CorruptDatasetError", "UnsupportedEncodingError"}
    assert "CorruptDatasetError" in found


def test_format_without_reader_is_unsupported(tmp_path: Path) -> None:
    stream = BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT)).save(stream, "EPS")
    with pytest.raises(UnsupportedEncodingError, match=r"'image'.*unsupported format EPS"):
        dataset(write(tmp_path, [stream.getvalue()]))[0]
