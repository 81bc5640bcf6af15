"""Decoding that the reading core leaves to those who need the objects: images, pickles, and texts.

The core delivers such values as they are stored, so that they can be shuffled and passed on without
being decoded. Images are decoded in threads: their decoders leave the interpreter's lock alone.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.errors import CorruptDatasetError, MDStormError, UnsafeTypeError
from mdstorm_backend.format.encodings import IMAGE_LISTS, IMAGES, parse_encoding
from mdstorm_backend.format.encodings.decode_images import image_array, open_image, split_images
from mdstorm_backend.format.schema import Column
from mdstorm_backend.read.parallel import decode_pixels, default_workers, map_in_threads

__all__ = ["Form", "LateDecoder", "check_safe", "object_decoder"]

#: Images as Pillow images, as a sample has them, or as arrays, as a batch has them.
Form: TypeAlias = Literal["object", "array"]


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
) -> Callable[[Any], Any]:
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
    return _checked(_decoder(kind, form), kind, column, url)


def _checked(decode: Callable[..., Any], kind: str, column: Column, url: str) -> Callable[..., Any]:
    def checked(*arguments: Any) -> Any:
        try:
            return decode(*arguments)
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


def _decoder(kind: str, form: Form) -> Callable[[Any], Any]:
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
        column, kind, url = self._column, self._kind, self._column.origin.url
        stored = values.to_numpy(zero_copy_only=False).tolist()
        workers = workers or default_workers()
        if kind in IMAGES and as_ == "array":
            into = _checked(partial(image_array, kind), kind, column, url)
            return decode_pixels(into, stored, workers)
        decode = object_decoder(kind, column, url, as_)
        decoded = map_in_threads(
            lambda value: None if value is None else decode(value),
            stored,
            workers if kind in IMAGE_LISTS else 1,
        )
        return np.fromiter(decoded, object, len(decoded))
