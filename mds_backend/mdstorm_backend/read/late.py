"""Decoding that the reading core leaves to those who need the objects: images, pickles, and texts.

The core delivers such values as they are stored, so that they can be shuffled and passed on without
being decoded. Images are decoded in threads: their decoders leave the interpreter's lock alone.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.encodings import IMAGE_LISTS, IMAGES, parse_encoding
from mdstorm_backend.errors import CorruptDatasetError, MDStormError, UnsafeTypeError
from mdstorm_backend.read.images import image_array, open_image, split_images
from mdstorm_backend.schema import Column

__all__ = ["Form", "LateDecoder", "check_safe", "late_decoder", "object_decoder"]

#: Images as Pillow images, as a sample has them, or as arrays, as a batch has them.
Form: TypeAlias = Literal["object", "array"]

#: More threads than that wait for each other's memory.
_MAX_THREADS = 8


def check_safe(column: Column) -> None:
    """Raise UnsafeTypeError if the values of `column` are pickles and the caller did not allow it.

    Unpickling runs whatever program the values contain.
    """
    if parse_encoding(column.encoding).kind == "pkl" and not column.origin.allow_unsafe_types:
        raise UnsafeTypeError(
            f"column {column.name!r} of {column.origin.url} holds pickles, and to load a pickle is "
            "to run the program in it. If you trust whoever wrote the dataset, open it with "
            "allow_unsafe_types=True; otherwise leave the column out with columns=[…]"
        )


def object_decoder(
    kind: str, column: Column, url: str, form: Form = "object"
) -> Callable[[bytes], Any]:
    """Return the function from a stored value to what it stands for.

    Parameters
    ----------
    kind : str
        Kind of the encoding in which the value is stored.
    column : Column
        The column it belongs to.
    url : str
        Where it comes from, for error messages.
    form : {"object", "array"}
        What becomes of images; a list of images becomes a list of them.

    Raises
    ------
    UnsafeTypeError
        If the values are pickles and the caller did not allow them.
    MissingDependencyError
        By the function, if an image needs Pillow and there is none.
    CorruptDatasetError
        By the function, if a value is not what its encoding says.
    """
    check_safe(column)
    decode = _decoder(kind, form)

    def checked(value: bytes) -> Any:
        try:
            return decode(value)
        except (MDStormError, MemoryError):
            raise
        except Exception as error:  # image libraries and pickles raise whatever they like
            raise CorruptDatasetError(
                f"column {column.name!r} of {url} holds a value that cannot be decoded as {kind} "
                f"({type(error).__name__}: {error}). Copy the file again, or write the dataset "
                "again; leave the column out with columns=[…] to read the others",
                url=url,
            ) from error

    return checked


def _decoder(kind: str, form: Form) -> Callable[[bytes], Any]:
    image = open_image if form == "object" else image_array
    if kind in IMAGES:
        return partial(image, kind)
    if kind in IMAGE_LISTS:
        single = IMAGE_LISTS[kind]
        return lambda value: [image(single, part) for part in split_images(kind, value)]
    return _OTHERS[kind]


def _unpickle(value: bytes) -> Any:
    return pickle.loads(value)  # noqa: S301  # the caller allowed it by name: see check_safe


_OTHERS: dict[str, Callable[[Any], Any]] = {
    "json": json.loads,
    "pkl": _unpickle,
    "str_decimal": Decimal,
    "str_float": float,
    "str_int": int,
}


class LateDecoder:
    """Decodes the values of one column of a dataset.

    Parameters
    ----------
    column : Column
        A column whose `Column.is_late` is true.

    Raises
    ------
    UnsafeTypeError
        If its values are pickles and the caller did not allow them.
    """

    def __init__(self, column: Column) -> None:
        check_safe(column)
        self._column = column
        self._kind = parse_encoding(column.encoding).kind

    @property
    def is_image(self) -> bool:
        """Whether a value is one image."""
        return self._kind in IMAGES

    def __call__(
        self, values: pa.Array, *, as_: Form = "array", workers: int | None = None
    ) -> npt.NDArray[Any]:
        """Decode stored values.

        Parameters
        ----------
        values : pyarrow.Array
            Values as the core delivers them, binary or string; null stays None.
        as_ : {"object", "array"}
            What becomes of images.
        workers : int, optional
            Threads that decode images; by default as many as there are processors, at most 8.

        Returns
        -------
        numpy.ndarray
            Images as arrays that have one shape: ``(rows, height, width[, channels])``. Anything
            else: shape ``(rows,)`` and dtype object.

        Raises
        ------
        CorruptDatasetError
            If a value is not what the encoding says.
        """
        decode = object_decoder(self._kind, self._column, self._column.origin.url, as_)
        stored = values.to_numpy(zero_copy_only=False).tolist()
        in_threads = self._kind in IMAGES or self._kind in IMAGE_LISTS
        decoded = _map(decode, stored, (workers or _threads()) if in_threads else 1)
        if self.is_image and as_ == "array" and _have_one_shape(decoded):
            return np.stack(decoded)
        return np.fromiter(decoded, object, len(decoded))


def late_decoder(column: Column) -> LateDecoder:
    """Return the decoder of `column`, see `LateDecoder`."""
    return LateDecoder(column)


def _map(decode: Callable[[Any], Any], values: list[Any], workers: int) -> list[Any]:
    def each(part: list[Any]) -> list[Any]:
        return [None if value is None else decode(value) for value in part]

    workers = min(workers, len(values))
    if workers <= 1:
        return each(values)
    # A pool of its own for every call: one that lasted would be without threads after a fork.
    size = max(1, len(values) // (4 * workers))
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    with ThreadPoolExecutor(workers, thread_name_prefix="mdstorm-images") as pool:
        return [value for part in pool.map(each, parts) for value in part]


def _threads() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, _MAX_THREADS)


def _have_one_shape(images: list[Any]) -> bool:
    return bool(images) and all(
        isinstance(image, np.ndarray)
        and image.shape == images[0].shape
        and image.dtype == images[0].dtype
        for image in images
    )
