"""Decode columns of encoded images to pixel arrays, for loaders and transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import check_integer, check_names, is_integer
from mdstorm_backend.display import counted
from mdstorm_backend.format.encodings.decode_images import rgb_pixels
from mdstorm_backend.format.encodings.image_memory import MAX_IMAGE_BYTES
from mdstorm_backend.format.encodings.numbers import array_encoding
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.batch import MASK_SUFFIX, Batch, as_arrow
from mdstorm_backend.read.late import default_workers, map_in_threads

#: Kinds of encodings that can hold image files.
_STORED = ("bytes", "jpeg", "png", "pil")
#: Field of a struct that holds an image file, next to its path, in datasets of Hugging Face.
_FILE = "bytes"

#: Column names as users pass them, and an image size: one number for squares, or height and width.
Decode: TypeAlias = str | Sequence[str]
Size: TypeAlias = int | tuple[int, int]
#: Returns the numbers of samples, for messages.
GetNumbers: TypeAlias = Callable[[], Sequence[int]]


def check_decode(decode: Decode | None, size: Size | None, most: int) -> None:
    """Raise an error for invalid `decode` names, image sizes, or limits on decoded bytes.

    Raises
    ------
    ArgumentTypeError
        If `decode` is neither a name nor a list, or `most` is not an integer.
    InvalidArgumentError
        If `most` is not positive, or `size` is invalid or given without `decode`.
    """
    check_names("decode", None if isinstance(decode, str) else decode)
    check_integer("max_image_bytes", most, lowest=1)
    if size is None:
        return
    sides = _sides(size)
    if len(sides) != 2 or not all(is_integer(side) and side > 0 for side in sides):
        raise errors.InvalidArgumentError(
            f"size must be a positive number of pixels, or (height, width), found {size!r}"
        )
    if not decode:
        raise errors.InvalidArgumentError(
            f"size={size!r} has no effect without decode: list the image columns in decode=[…]"
        )


def decoded_names(decode: Decode | None) -> list[str]:
    """Return the names of the columns to decode, each once."""
    return [decode] if isinstance(decode, str) else list(dict.fromkeys(decode or ()))


def _holds_images(column: Column) -> bool:
    """Whether a column may hold image files: binary values, or a struct with such a field."""
    type_ = column.arrow_type
    if column.parsed_encoding.kind in _STORED or not pa.types.is_struct(type_):
        return column.parsed_encoding.kind in _STORED
    return any(field.name == _FILE and pa.types.is_binary(field.type) for field in type_)


def _sides(size: Size) -> tuple[int, int]:
    return tuple(size) if isinstance(size, Sequence) else (size, size)  # type: ignore[return-value]


@dataclass(frozen=True)
class ImageDecoder:
    """Decodes columns of encoded images to RGB. Thread-safe and picklable.

    Attributes
    ----------
    stored : tuple of Column
        The columns as they are stored.
    size : (int, int) or None
        Height and width to which images are resized and cropped; None keeps their own size.
    masked : tuple of str
        Columns with a mask column, whose nulls become black images.
    most : int
        Upper limit on the decoded bytes of one image.
    """

    stored: tuple[Column, ...]
    size: tuple[int, int] | None = None
    masked: tuple[str, ...] = ()
    most: int = MAX_IMAGE_BYTES

    @classmethod
    def of(
        cls,
        schema: Schema,
        decode: Decode,
        size: Size | None,
        masked: Sequence[str],
        most: int = MAX_IMAGE_BYTES,
    ) -> ImageDecoder:
        """Return a decoder for columns in `schema`; arguments must have passed `check_decode`.

        Raises
        ------
        InvalidArgumentError
            If a column is not read, or does not hold images.
        """
        names = decoded_names(decode)
        for name in names:
            column = schema.get(name)
            if column is None or not _holds_images(column):
                found = "is not read" if column is None else f"is of type {column.shown_type}"
                raise errors.InvalidArgumentError(
                    f"decode lists column {name!r}, which {found}. List binary columns that "
                    "contain image files, or structs with such a field 'bytes'; the columns being "
                    f"read are {list(schema.names)}"
                )
        stored = tuple(schema[name] for name in names)
        return cls(stored, None if size is None else _sides(size), tuple(masked), most)

    def __str__(self) -> str:
        names = ", ".join(self.names)
        return names if self.size is None else f"{names} as {self.size[0]}x{self.size[1]}"

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.stored]

    @property
    def shape(self) -> tuple[int | None, int | None, int]:
        """Height, width and channels of a decoded image; without a size the first two are None."""
        return (*(self.size or (None, None)), 3)

    @property
    def columns(self) -> list[Column]:
        """The decoded columns: uint8 arrays, or images of any size."""
        sized = self.size and array_encoding(np.dtype(np.uint8), (*self.size, 3))
        return [replace(c, encoding=sized or "png", spark_type=None) for c in self.stored]

    def check_nulls(self, columns: Iterable[Column]) -> None:
        """Raise NullValueError if one of `columns` is to be decoded but holds nulls."""
        for column in columns:
            if column.name in self.names and column.null_count:
                raise errors.NullValueError(
                    f"column {column.name!r} holds {counted(column.null_count, 'null')}, which "
                    f"decode cannot turn into images: {_instead(column)}",
                    columns={column.name: column.null_count},
                )

    def damaged(
        self, batch: Batch, numbers: GetNumbers = tuple
    ) -> Iterator[tuple[int, errors.CorruptDatasetError]]:
        """Yield the row of each damaged image in a batch, and its error; nulls are ignored."""
        for found in self._encoded(batch, numbers).values():
            yield from found.damaged()

    def __call__(
        self, batch: Batch, numbers: GetNumbers = tuple, threads: int | None = None
    ) -> Batch:
        """Decode the images in a batch, each directly into its position in the column's array.

        Parameters
        ----------
        batch : Batch
            The rows.
        numbers : callable
            Returns the numbers of these samples, for messages; empty if they are not known.
        threads : int, optional
            Number of decoding threads; by default `default_workers`.

        Raises
        ------
        CorruptDatasetError
            If an image is damaged.
        UnsupportedEncodingError
            If the installed Pillow cannot decode an image's format.
        InvalidArgumentError
            If no size is set, and images differ in size or all rows are null.
        NullValueError
            If an image is null and its column has no mask.
        MissingDependencyError
            If Pillow is needed and not installed.
        """
        threads, images = threads or default_workers(), self._encoded(batch, numbers)
        return {**batch, **{name: found.decoded(threads) for name, found in images.items()}}

    def _encoded(self, batch: Batch, numbers: GetNumbers) -> dict[str, _EncodedImages]:
        return {
            c.name: _EncodedImages(c, batch, numbers, self.size, c.name in self.masked, self.most)
            for c in self.stored
            if c.name in batch
        }


class _EncodedImages:
    """The image files in one column of a batch; None where the column is null."""

    def __init__(
        self,
        column: Column,
        batch: Batch,
        numbers: GetNumbers,
        size: tuple[int, int] | None,
        masked: bool,
        most: int,
    ) -> None:
        self._column, self._size, self._most = column, size, most
        self._paths = batch.get(column.origin.path_column)
        values = as_arrow(batch[column.name])
        if pa.types.is_struct(values.type):
            values = values.flatten()[values.type.get_field_index(_FILE)]
        self._files = values.to_pylist()
        nulls = batch.get(column.name + MASK_SUFFIX) if masked else None
        #: Rows that have an image, or a null that is not masked; other rows become black images.
        self._present = [
            row for row, file in enumerate(self._files) if file or nulls is None or not nulls[row]
        ]
        self._numbers = numbers

    def decoded(self, threads: int) -> npt.NDArray[np.uint8]:
        """Return all images as one array ``(rows, height, width, 3)``."""
        rows, present = len(self._files), self._present
        if rows and not present and not self._size:
            raise errors.InvalidArgumentError(
                f"column {self._column.name!r} is null in all rows of a batch, so the size of its "
                "black images is not known: pass size="
            )
        first = self._pixels(present[0]) if present and not self._size else None
        shape = (*(self._size or (0, 0)), 3) if first is None else first.shape
        stack = (np.empty if len(present) == rows else np.zeros)((rows, *shape), np.uint8)
        if first is not None:
            stack[present[0]] = first

        def decode(row: int) -> None:
            found = self._pixels(row, stack[row])
            if found.shape != shape:
                raise self._other_shape(row, found.shape, shape)

        map_in_threads(decode, present[first is not None :], threads)
        return stack

    def damaged(self) -> Iterator[tuple[int, errors.CorruptDatasetError]]:
        """Decode all images, and yield the row and the error of each that is damaged."""
        for row in self._present:
            try:
                if self._files[row] is not None:
                    self._pixels(row)
            except errors.CorruptDatasetError as error:
                yield row, error

    def _pixels(self, row: int, out: npt.NDArray[np.uint8] | None = None) -> npt.NDArray[np.uint8]:
        """Return one image, in `out` if it has the image's shape."""
        file = self._files[row]
        if file is None and pa.types.is_struct(self._column.arrow_type):
            raise errors.NullValueError(
                f"{self._place(row)} has no file in its field {_FILE!r}: write the dataset with "
                "the image files in it, and not only their paths"
            )
        if file is None:
            raise errors.NullValueError(f"{self._place(row)} is null: {_instead(self._column)}")
        try:
            kind = self._column.parsed_encoding.kind
            kind = kind if kind in _STORED else "bytes"
            return rgb_pixels(kind, file, self._size, out, self._most)
        except (errors.InvalidArgumentError, errors.UnsupportedEncodingError) as error:
            raise type(error)(f"{self._place(row)}: {error}") from error
        except (errors.MDStormError, MemoryError):
            raise
        except Exception as error:  # image libraries may raise any exception
            reason = str(error).partition(" <_io.BytesIO")[0]
            fix = (
                "Write the dataset again without it, or skip it with a predicate that tries to "
                "open it"
            )
            if self._column.origin.path_column:
                fix = "Replace the file, or pass on_corrupt='skip' to leave its row out of batches"
            raise errors.CorruptDatasetError(
                f"{self._place(row)} cannot be decoded as an image "
                f"({type(error).__name__}: {reason}). {fix}",
                url=self._column.origin.url,
            ) from error

    def _other_shape(
        self, row: int, found: tuple[int, ...], shape: tuple[int, ...]
    ) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(
            f"{self._place(row)} is {found[0]} by {found[1]} pixels, but "
            f"{self._place(self._present[0])} is {shape[0]} by {shape[1]}: pass size= to resize "
            "and crop all images to the same size"
        )

    def _place(self, row: int) -> str:
        """Return the description of a row for error messages."""
        name, url = self._column.name, self._column.origin.url
        path = "" if self._paths is None else f", the file {self._paths[row]},"
        return described_row(name, row, len(self._files), url, self._numbers()) + path


def described_row(name: str, row: int, rows: int, url: str, numbers: Sequence[int]) -> str:
    """Return the description of a row for error messages.

    Parameters
    ----------
    name : str
        Name of the column.
    row, rows : int
        The row among those that were read together, and their number.
    url : str
        URL of the dataset.
    numbers : sequence of int
        The numbers of these samples; empty if they are not known.
    """
    # If a filter has dropped rows, there are more sample numbers than rows, and they do not match.
    is_known = len(numbers) == rows
    where = f"sample {numbers[row]} of" if is_known else f"row {row} among {rows} rows read from"
    return f"column {name!r} of {where} {url}"


def _instead(column: Column) -> str:
    """Return the advice for error messages about missing images."""
    name = column.name
    path = column.origin.path_column or name
    return (
        f"pass the bytes of an image file in fill_nulls={{{name!r}: …}}, request black images and "
        f"a mask column with null_masks=[{name!r}], or leave out such rows with "
        f"where=[({path!r}, '!=', None)]"
    )
