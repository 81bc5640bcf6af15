"""Values at the borders of what a shard stores, for each encoding.

At a border, a size, a count or a number begins to take another byte, or is the last of its type.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.format.encodings.registry import FORMAT, parse_encoding

#: The last sizes that take no byte, one byte and two bytes, signed or not, and those next to them.
SIZES = (0, 1, 127, 128, 255, 256, 257, 65_535, 65_536)
#: Number of rows of a column.
ROWS = 3
#: Number of bits of a fraction.
_FRACTIONS = {"float16": 10, "float32": 23, "float64": 52}
#: A JPEG file has at most so many pixels in a row.
_WIDEST_JPEG = 65_500


@dataclass(frozen=True)
class Border:
    """Border values of one encoding.

    Attributes
    ----------
    encoding : str
        The encoding.
    ordinary : object
        A value that is no border, for the other rows of a column.
    values : list
        The borders.
    type_ : pyarrow.DataType, optional
        Type of an Arrow column of such values. If there is none, the column has the stored bytes.
    """

    encoding: str
    ordinary: Any
    values: list[Any]
    type_: pa.DataType | None = None

    @property
    def has_columns(self) -> bool:
        """Whether such values can be in an Arrow column."""
        return self.type_ is not None or parse_encoding(self.encoding).can_store(pa.binary())

    def column(self, values: list[Any]) -> pa.Array:
        """Return the values as an Arrow column."""
        if self.type_ is None:
            return pa.array(map(parse_encoding(self.encoding).encoder(), values), pa.binary())
        if pa.types.is_floating(self.type_):
            return pa.array(np.array(values, self.type_.to_pandas_dtype()))
        if pa.types.is_list(self.type_) and pa.types.is_primitive(self.type_.value_type):
            return pa.array(values, self.type_)  # as Python's floats, NaNs would lose their bits
        plain = [each.tolist() if isinstance(each, np.ndarray) else each for each in values]
        return pa.array(plain, self.type_)


def columns_of(border: Border) -> dict[str, list[Any]]:
    """Return columns in which each border is first, last, and in all rows."""
    found = {}
    for number, value in enumerate(border.values):
        found[f"{number:02} first"] = [value, border.ordinary, border.ordinary]
        found[f"{number:02} last"] = [border.ordinary, border.ordinary, value]
        found[f"{number:02} in all rows"] = [value] * ROWS
    return found


def floats(name: str) -> npt.NDArray[Any]:
    """Return the first and last denormal and normal numbers, zeros, infinities and kinds of NaN."""
    fraction, bits = _FRACTIONS[name], 8 * np.dtype(name).itemsize
    sign = 1 << bits - 1
    infinity, quiet = sign - (1 << fraction), 1 << fraction - 1
    found = [0, 1, (1 << fraction) - 1, 1 << fraction, infinity - 1, infinity]
    found += [infinity + 1, infinity + quiet, infinity + quiet + 1, sign - 1]
    return np.array([*found, *(sign | each for each in found)], f"u{bits // 8}").view(name)


def integers(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the first and last numbers of a dtype, and those next to where a byte is added."""
    limits = np.iinfo(dtype)
    near = {(1 << bits) + step for bits in (0, 7, 8, 15, 16, 31, 32) for step in (-1, 0, 1)}
    found = {limits.min, limits.max, *near, *(-each for each in near)}
    return np.array([each for each in sorted(found) if limits.min <= each <= limits.max], dtype)


def numbers_of(name: str) -> Iterator[Border]:
    dtype = DTYPES[name]
    values = floats(name) if name in _FRACTIONS else integers(dtype)
    yield Border(name, dtype.type(7), list(values), pa.from_numpy_dtype(dtype))


def python_integers(name: str) -> Iterator[Border]:
    yield Border(name, 7, integers(np.dtype("int64")).tolist(), pa.int64())


def _array(dtype: np.dtype[Any], *shape: int) -> npt.NDArray[Any]:
    return (np.arange(np.prod(shape)) % 101).astype(dtype).reshape(shape)


def arrays(name: str) -> Iterator[Border]:
    short, flat = DTYPES["int16"], pa.list_(pa.int16())
    for dtype in DTYPES.values():
        lists = pa.list_(pa.from_numpy_dtype(dtype))
        # Headers are the same for all dtypes; the number of bytes may be a border instead.
        lengths = [0, 1, 127, 128, 255, 256, *(n // dtype.itemsize for n in (128, 256, 65_536))]
        values = [_array(dtype, length) for length in (SIZES if dtype == short else lengths)]
        yield Border(name, _array(dtype, 3), values, lists)
        yield Border(f"{name}:{dtype.name}", _array(dtype, 3), values, lists)
        numbers = floats(dtype.name) if dtype.name in _FRACTIONS else integers(dtype)
        ordinary = np.zeros_like(numbers)
        yield Border(f"{name}:{dtype.name}:{len(numbers)}", ordinary, [numbers], lists)
    for size in SIZES[1:]:
        values = [_array(short, size)]
        yield Border(f"{name}:int16:{size}", values[0][::-1].copy(), values, flat)
    sides = [*((1, n) for n in SIZES[1:]), *((n, 1) for n in SIZES[1:-2]), (255, 257), (256, 255)]
    nested = [_array(short, *each) for each in sides]
    depths = [(1,) * n for n in (3, 4, 31, 32)]
    empty = [(0, 0), (0, 256), (256, 0), (65_536, 0, 1)]
    unusual = [_array(short, *each) for each in (*empty, *depths, (65_535, 1), (65_536, 1))]
    for encoding in (name, f"{name}:int16"):
        yield Border(encoding, _array(short, 2, 3), nested, pa.list_(flat))
        yield Border(encoding, _array(short, 3), unusual)


def texts(name: str) -> Iterator[Border]:
    values = ["a" * (n - 1) + "b" for n in SIZES[1:]] + [
        "é" * (n // 2) for n in (0, 128, 256, 65_536)
    ]
    last = ["\0", "a\0", "\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff"]
    yield Border(name, "text", values + last, pa.string())


def files(name: str) -> Iterator[Border]:
    values = [b"\0" * (n - 1) + b"\xff" for n in SIZES[1:]]
    yield Border(name, b"file", [b"", b"\0", b"\xff\0", *values], pa.binary())


def json_values(name: str) -> Iterator[Border]:
    """Return values of which the JSON text has a size at a border, and the last numbers."""
    texts = ["a" * (n - 2) for n in SIZES[2:]]
    yield Border(name, "text", [*texts, "", "\0", '"', "\U0010ffff"], pa.string())
    yield Border(name, [1, 2], [[], [0] * 256], pa.list_(pa.int64()))
    yield Border(name, 7, [2**53 + 1, 2**63 - 1, -(2**63)], pa.int64())
    values = floats("float64")
    yield Border(name, 7.0, values[np.isfinite(values)].tolist(), pa.float64())


def pickles(name: str) -> Iterator[Border]:
    yield Border(
        name, {"a": 1}, [None, [], *("a" * n for n in SIZES), *([7] * n for n in SIZES[:7])]
    )


def integer_texts(name: str) -> Iterator[Border]:
    yield Border(name, 7, integers(np.dtype("int64")).tolist(), pa.int64())
    yield Border(name, 7, [2**63, 2**64, -(2**63) - 1, 10**254, 10**255], None)


def float_texts(name: str) -> Iterator[Border]:
    values = floats("float64")
    kept = values[~np.isnan(values)].tolist()  # a text has one kind of NaN
    yield Border(name, 7.0, [*kept, 1 / 3, 2.0**53], pa.float64())


def decimal_texts(name: str) -> Iterator[Border]:
    digits = [1, 9, 10, 18, 19, 36]
    values = [Decimal(f"{sign}{'9' * n}.99") for n in digits for sign in ("", "-")]
    yield Border(
        name, Decimal("7.00"), [Decimal("0.00"), Decimal("-0.01"), *values], pa.decimal128(38, 2)
    )


def _image(mode: str, width: int, height: int) -> Any:
    grey = np.arange(width * height, dtype=np.uint32).reshape(height, width) * 37 % 251
    image = Image.fromarray(grey.astype(np.uint8))
    return Image.fromarray(grey.astype(np.uint16) * 257) if mode == "I;16" else image.convert(mode)


def _palette(colours: int) -> Any:
    image = Image.fromarray((np.arange(2 * colours).reshape(2, colours) % colours).astype(np.uint8))
    image.putpalette([each % 256 for n in range(colours) for each in (n, 3 * n, 7 * n)])
    return image


def _images(modes: tuple[str, ...], sides: tuple[int, ...] = SIZES[1:]) -> list[Any]:
    sizes = [(n, 1) for n in sides] + [(1, n) for n in sides] + [(257, 255)]
    return [_image(mode, 5, 3) for mode in modes] + [_image("L", *size) for size in sizes]


def raw_images(name: str) -> Iterator[Border]:
    modes = "1", "L", "LA", "RGB", "RGBA", "CMYK", "I;16", "F", "YCbCr"
    yield Border(name, _image("RGB", 2, 3), [*_images(modes), _image("L", 70_000, 2)])


def png_files(name: str) -> Iterator[Border]:
    found = [*_images(("1", "L", "LA", "RGB", "RGBA", "I;16")), _image("L", 70_000, 2)]
    palettes = [_palette(colours) for colours in (1, 2, 3, 4, 5, 16, 17, 255, 256)]
    yield Border(name, _image("RGB", 2, 3), found + palettes)


def jpeg_files(name: str) -> Iterator[Border]:
    yield Border(name, _image("RGB", 2, 3), _images(("L", "RGB", "CMYK"), (1, 256, _WIDEST_JPEG)))


def image_lists(name: str) -> Iterator[Border]:
    """Return lists of as many images, and of images whose sizes are at borders."""
    images, mode = [_image("L", n, 1) for n in SIZES[1:-2]], "L"
    counts = [[_image(mode, 1, 1)] * n for n in (0, 1, 256)]
    yield Border(name, images[:2], [*counts, images, [_image(mode, _WIDEST_JPEG, 1)]])


def file_lists(name: str) -> Iterator[Border]:
    def saved(image: Any) -> bytes:
        image.save(file := io.BytesIO(), "JPEG")
        return file.getvalue()

    for border in image_lists(name):
        values = [[saved(image) for image in images] for images in border.values]
        yield Border(name, [saved(_image("L", 2, 3))], values, pa.list_(pa.binary()))


#: The registered encodings, without other names for them.
ENCODINGS = [name for name, kind in FORMAT.items() if name not in kind.aliases]
#: Name of an encoding → its borders.
BORDERS: dict[str, Callable[[str], Iterator[Border]]] = {
    **dict.fromkeys(DTYPES, numbers_of),
    "int": python_integers,
    "ndarray": arrays,
    "str": texts,
    "bytes": files,
    "json": json_values,
    "pkl": pickles,
    "str_int": integer_texts,
    "str_float": float_texts,
    "str_decimal": decimal_texts,
    "pil": raw_images,
    "png": png_files,
    "jpeg": jpeg_files,
    **dict.fromkeys(("list[pil]", "list[png]", "list[jpeg]"), image_lists),
    "jpeg_array": file_lists,
}


def borders(name: str) -> list[Border]:
    """Return the borders of a registered encoding."""
    return list(BORDERS[name](name))
