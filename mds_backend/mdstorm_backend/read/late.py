"""Decode images, pickles and strings, which shards return as stored.

Late decoding allows them to be shuffled and passed on undecoded. Images are decoded in threads,
because their decoders release the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from multiprocessing import current_process
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.pools import Threads
from mdstorm_backend.errors import (
    CorruptDatasetError,
    InvalidArgumentError,
    MDStormError,
    UnsafeTypeError,
)
from mdstorm_backend.format.encodings.encoding import DecodeValue, Encoding, Form
from mdstorm_backend.format.schema import Column


def unsafe_type_error(column: str, url: str) -> UnsafeTypeError:
    """Return the error for a column of pickles that the caller did not allow."""
    return UnsafeTypeError(
        f"column {column!r} of {url} contains an unsafe type: it contains pickles, and unpickling "
        "can execute code. If you trust whoever wrote the dataset, pass "
        "allow_unsafe_types=True to StreamingDataset or open_dataset. Otherwise list the other "
        "columns in columns=[…] or, for converters and readers, in schema_fields=[…]"
    )


def object_decoder(
    encoding: Encoding, column: Column, url: str, form: Form = "object"
) -> DecodeValue:
    """Return a function that decodes one stored value.

    Parameters
    ----------
    encoding : Encoding
        The encoding of the stored value.
    column : Column
        The column of the value.
    url : str
        Where the value comes from, for error messages.
    form : {"object", "array"}
        What images are decoded to; a list of images becomes a list of these.

    Raises
    ------
    UnsafeTypeError
        If the values are pickles and the caller did not allow them.
    MissingDependencyError
        By the returned function, if an image needs Pillow and it is not installed.
    InvalidArgumentError
        By the returned function, if an image's pixels would take up too much memory.
    CorruptDatasetError
        By the returned function, if a value cannot be decoded by its encoding.
    """
    if encoding.is_unsafe and not column.origin.allow_unsafe_types:
        raise unsafe_type_error(column.name, column.origin.url)
    decode = encoding.decoder(form)

    def checked(*arguments: Any) -> Any:
        try:
            return decode(*arguments)
        except InvalidArgumentError as error:  # a sound image that is too large
            raise InvalidArgumentError(f"column {column.name!r} of {url}: {error}") from error
        except (MDStormError, MemoryError):
            raise
        except Exception as error:  # image libraries and pickles may raise anything
            raise CorruptDatasetError(
                f"column {column.name!r} of {url} holds a value that cannot be decoded as "
                f"{encoding.kind} ({type(error).__name__}: {error}). Copy the file again, or write "
                "the dataset again; leave the column out with columns=[…] to read the others",
                url=url,
            ) from error

    return checked


def decode_late(values: pa.Array, column: Column) -> npt.NDArray[Any]:
    """Decode stored values of a column.

    Parameters
    ----------
    values : pyarrow.Array
        Values as a shard returns them, binary or string; null becomes None.
    column : Column
        Their column, whose `Column.is_late` is true.

    Returns
    -------
    numpy.ndarray
        Images of the same shape: ``(rows, height, width[, channels])``. Arrays and numbers that a
        user's encoding returns: one array if they share dtype and shape. Anything else: shape
        ``(rows,)`` and dtype object.

    Raises
    ------
    UnsafeTypeError
        If the values are pickles and the caller did not allow them.
    CorruptDatasetError
        If a value cannot be decoded by its encoding.
    """
    encoding, stored, workers = column.parsed_encoding, values.to_pylist(), default_workers()
    decode = object_decoder(encoding, column, column.origin.url, "array")
    if encoding.is_image:
        return decode_pixels(decode, stored, workers)
    decoded = map_in_threads(
        lambda value: None if value is None else decode(value),
        stored,
        workers if encoding.in_threads else 1,
    )
    return joined(decoded) if encoding.joins_arrays else objects(decoded)


def joined(values: list[Any]) -> npt.NDArray[Any]:
    """Join numbers, or arrays of one dtype and shape, into one array; return others as objects."""
    kinds = {
        (value.dtype, value.shape) if isinstance(value, (np.ndarray, np.generic)) else type(value)
        for value in values
    }
    kind = kinds.pop() if len(kinds) == 1 else None
    if isinstance(kind, tuple):
        return np.stack(values)
    numbers = np.array(values) if kind in (int, float) else None
    # NumPy converts integers beyond int64 to objects, or to unsigned integers.
    return objects(values) if numbers is None or numbers.dtype.kind in "Ou" else numbers


def objects(values: list[Any]) -> npt.NDArray[Any]:
    """Return the values as a one-dimensional array of dtype object, even if they are sequences."""
    # Not np.array: it would turn lists of the same length into a second dimension.
    return np.fromiter(values, object, len(values))


#: Decodes a stored image to its pixels, which may fill the array that is passed.
DecodePixels: TypeAlias = Callable[[bytes, npt.NDArray[Any] | None], npt.NDArray[Any]]

#: More threads than this would only contend for memory.
_MAX_WORKERS = 8

#: Largest array that is allocated on the assumption that all images are as large as the first one.
MAX_STACK_BYTES = 1 << 30


def default_workers() -> int:
    """Return the number of decoding threads: one per processor usable by this process, at most 8.

    A daemonic process, such as a PyTorch DataLoader worker, gets one, because other workers use
    the rest.
    """
    if current_process().daemon:
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, _MAX_WORKERS)


def map_in_threads(function: Callable[[Any], Any], items: Sequence[Any], workers: int) -> list[Any]:
    """Return `function(item)` for each item, in order, computed in up to `workers` threads."""
    workers = min(workers, len(items))
    if workers <= 1:
        return [function(item) for item in items]

    def each(part: Sequence[Any]) -> list[Any]:
        return [function(item) for item in part]

    # Parts are small, so that all threads finish at about the same time.
    size = max(1, len(items) // (4 * workers))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    # A new pool for each call: a persistent one would have no threads after a fork.
    with Threads(workers, thread_name_prefix="mdstorm-decode") as pool:
        return [result for part in pool.map(each, parts) for result in part]


def decode_pixels(
    decode: DecodePixels, values: Sequence[bytes | None], workers: int
) -> npt.NDArray[Any]:
    """Decode images in threads.

    Parameters
    ----------
    decode : callable
        Decodes one image.
    values : sequence of bytes or None
        Stored images; None stays None.
    workers : int
        Number of threads.

    Returns
    -------
    numpy.ndarray
        Shape ``(rows, height, width[, channels])`` if all share shape and dtype, otherwise
        ``(rows,)`` of dtype object.
    """
    first = None if not values or values[0] is None else decode(values[0], None)
    if first is None or None in values or first.nbytes * len(values) > MAX_STACK_BYTES:
        alone = map_in_threads(lambda v: None if v is None else decode(v, None), values, workers)
        return np.fromiter(alone, object, len(alone))
    stack = np.empty((len(values), *first.shape), first.dtype)
    stack[0] = first

    def fill(row: int) -> npt.NDArray[Any] | None:
        """Decode one image into its place; return its pixels if they do not fit."""
        value, place = values[row], stack[row]
        assert value is not None
        pixels = decode(value, place)
        return None if pixels is place else pixels

    others = [None, *map_in_threads(fill, range(1, len(values)), workers)]
    if all(pixels is None for pixels in others):
        return stack
    alone = [stack[row].copy() if p is None else p for row, p in enumerate(others)]
    return np.fromiter(alone, object, len(alone))
