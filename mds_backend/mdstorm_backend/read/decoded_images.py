"""Decode columns of encoded images to arrays of pixels, for loaders and transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend import errors
from mdstorm_backend.base.checks import check_integer, check_list, is_integer
from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.display import counted
from mdstorm_backend.format.encodings.decode_images import MAX_IMAGE_BYTES, rgb_pixels
from mdstorm_backend.format.encodings.numbers import array_encoding
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.batch import MASK_SUFFIX, Batch, as_arrow
from mdstorm_backend.read.block import Transform
from mdstorm_backend.read.late import default_workers, map_in_threads

#: Encodings that an image may have.
_STORED = ("bytes", "jpeg", "png", "pil")

#: Columns as users name them, and a size: of squares, or height and width.
Decode: TypeAlias = str | Sequence[str]
Size: TypeAlias = int | tuple[int, int]

#: Numbers of the samples that are being read, for messages.
_numbers: ContextVar[Callable[[], Sequence[int]]] = ContextVar("numbers", default=tuple)


@contextmanager
def reading_samples(numbers: Callable[[], Sequence[int]]) -> Iterator[None]:
    """Let errors about the rows that are decoded meanwhile name these samples."""
    token = _numbers.set(numbers)
    try:
        yield
    finally:
        _numbers.reset(token)


def check_decode(decode: Decode | None, size: Size | None, most: int) -> None:
    """Refuse what cannot name columns, or be the size of an image, or the bytes that it may take.

    Raises
    ------
    ArgumentTypeError
        If `decode` is not a name or a list, or `most` is no number.
    InvalidArgumentError
        If `most` is not positive; or `size` is none, or has no column to apply to.
    """
    check_list("decode", None if isinstance(decode, str) else decode)
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
            f"size={size!r} has no effect without decode: name the columns of images, decode=[…]"
        )


def _sides(size: Size) -> tuple[int, int]:
    return tuple(size) if isinstance(size, Sequence) else (size, size)  # type: ignore[return-value]


@dataclass(frozen=True)
class ImageDecoder:
    """Decodes columns of encoded images to RGB. Safe to share between threads; it pickles.

    Attributes
    ----------
    stored : tuple of Column
        The columns as they are stored.
    size : (int, int) or None
        Height and width to which images are resized and cropped; None for their own.
    masked : tuple of str
        Columns with a mask column, whose nulls become black images.
    most : int
        Bytes that an image may decode to.
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
        """Return what decodes columns of `schema`, as `check_decode` allows.

        Raises
        ------
        InvalidArgumentError
            If a column is not read, or holds no images.
        """
        names = [decode] if isinstance(decode, str) else list(dict.fromkeys(decode))
        for name in names:
            column = schema.get(name)
            if column is None or column.parsed_encoding.kind not in _STORED:
                found = "is not read" if column is None else f"is of type {column.shown_type}"
                raise errors.InvalidArgumentError(
                    f"decode names column {name!r}, which {found}; read are {list(schema.names)}. "
                    "Name binary columns that hold image files"
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
        """Shape of an image: height, width and channels, None where images have their own."""
        return (*(self.size or (None, None)), 3)

    @property
    def columns(self) -> list[Column]:
        """The columns as they are delivered: uint8 arrays, or images of any size."""
        sized = self.size and array_encoding(np.dtype(np.uint8), (*self.size, 3))
        return [replace(c, encoding=sized or "png", spark_type=None) for c in self.stored]

    def check_nulls(self, columns: Iterable[Column]) -> None:
        """Raise NullValueError if one of some columns is decoded, and holds nulls."""
        for column in columns:
            if column.name in self.names and column.null_count:
                raise errors.NullValueError(
                    f"column {column.name!r} holds {counted(column.null_count, 'null')}, of which "
                    f"decode makes no image: {_instead(column.name)}",
                    columns={column.name: column.null_count},
                )

    def before(self, transform: Transform) -> Transform:
        """Return a transform that gets images decoded, unless it leaves all of them as they are."""
        return transform if self.after(transform) == self else _DecodedFirst(self, transform)

    def after(self, transform: Transform | None) -> ImageDecoder | None:
        """Return what decodes the images that a transform has left as they are."""
        if transform is None:
            return self
        unchanged = getattr(transform, "unchanged", ())
        left = tuple(column for column in self.stored if column.name in unchanged)
        return replace(self, stored=left) if left else None

    def __call__(self, batch: Batch, threads: int | None = None) -> Batch:
        """Decode the images of some rows, each into its place in one array.

        Parameters
        ----------
        batch : Batch
            The rows.
        threads : int, optional
            Threads that decode; by default `default_workers`.

        Raises
        ------
        CorruptDatasetError
            If an image is damaged.
        InvalidArgumentError
            If there is no size, and images differ in theirs.
        NullValueError
            If there is none.
        MissingDependencyError
            If Pillow is needed and not installed.
        """
        with work(Cause.DECODING):
            columns = [column for column in self.stored if column.name in batch]
            threads = threads or default_workers()
            return {**batch, **{c.name: self._decoded(c, batch, threads) for c in columns}}

    def _decoded(self, column: Column, batch: Batch, threads: int) -> npt.NDArray[np.uint8]:
        images = as_arrow(batch[column.name]).to_numpy(zero_copy_only=False).tolist()
        mask = batch.get(column.name + MASK_SUFFIX) if column.name in self.masked else None
        present = [
            row for row, image in enumerate(images) if image or mask is None or not mask[row]
        ]
        kind, rows, url = column.parsed_encoding.kind, len(images), column.origin.url
        read = _numbers.get()  # which the threads do not know

        def place(row: int) -> str:
            numbers = read()  # more of them, if a filter has left out rows
            where = f"sample {numbers[row]}" if len(numbers) == rows else f"row {row} of {rows}"
            return f"column {column.name!r} of {where} of {url}"

        def pixels(row: int, out: npt.NDArray[np.uint8] | None = None) -> npt.NDArray[np.uint8]:
            if images[row] is None:
                raise errors.NullValueError(f"{place(row)} is null: {_instead(column.name)}")
            try:
                return rgb_pixels(kind, images[row], self.size, out, self.most)
            except (errors.MDStormError, MemoryError):
                raise
            except Exception as error:  # image libraries raise whatever they like
                said = str(error).partition(" <_io.BytesIO")[0]
                raise errors.CorruptDatasetError(
                    f"{place(row)} is no image that can be decoded ({type(error).__name__}: "
                    f"{said}). Write the dataset again without it, or leave it out by a predicate "
                    "that tries to open it",
                    url=url,
                ) from error

        if rows and not present and not self.size:
            raise errors.InvalidArgumentError(
                f"column {column.name!r} is null in all rows of a batch, and no image says which "
                "size black ones are to have: give size="
            )
        first = pixels(present[0]) if present and not self.size else None
        shape = (*(self.size or (0, 0)), 3) if first is None else first.shape
        stack = (np.empty if len(present) == rows else np.zeros)((rows, *shape), np.uint8)

        def fill(row: int) -> None:
            found = pixels(row, stack[row])
            if found.shape != shape:
                raise errors.InvalidArgumentError(
                    f"{place(row)} has {found.shape[0]} by {found.shape[1]} pixels, but "
                    f"{place(present[0])} {shape[0]} by {shape[1]}: give size= to resize and crop "
                    "all images to one size"
                )

        if first is not None:
            stack[present[0]] = first
        map_in_threads(fill, present[first is not None :], threads)
        return stack


def _instead(name: str) -> str:
    """Say what can be done about missing images."""
    return (
        f"give fill_nulls={{{name!r}: …}} the bytes of an image file, ask for black images and a "
        f"mask column with null_masks=[{name!r}], or leave such rows out, in a reader "
        f"with filters=[({name!r}, '!=', None)]"
    )


class _DecodedFirst:
    """A transform that gets images decoded, with the attributes of the one that it calls."""

    def __init__(self, images: ImageDecoder, transform: Transform) -> None:
        self._images = images
        self._transform = transform
        self.columns = transform.columns
        self.unchanged = frozenset(getattr(transform, "unchanged", ())).difference(images.names)
        self.leaves_out_rows = getattr(transform, "leaves_out_rows", False)
        self.keeps_rows = getattr(transform, "keeps_rows", False)

    def __call__(self, batch: Batch) -> Batch:
        return self._transform(self._images(batch))
