"""Decode arrays stored as ``.npy`` files or ``.npz`` archives written by NumPy.

A file consists of a header, which contains the dtype and shape in Python syntax, and the values.
Dtype and shape are checked before memory is allocated. Because a column has few distinct headers,
each header is parsed only once, and the values of all rows are copied together.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format import Values, gather_binary, gather_fixed

#: Array shape, with None for dimensions of any size.
Shape = tuple[int | None, ...]
_Positions = npt.NDArray[np.int64]

_MAGIC = np.frombuffer(b"\x93NUMPY", np.uint8)
#: Total size in bytes of the magic string, the version, and the 4-byte header length.
_PREFIX_SIZE = 12
#: Maximum header size in bytes. NumPy refuses headers longer than 10,000.
MOST_BYTES = 16 << 10
#: The local header of an archive member, with its signature, flags, method, checksum, and the
#: lengths of its name and extra field.
_HEADER = struct.Struct("<4s2xHH4xI8xHH")
_SIGNATURE = b"PK\x03\x04"
_MEMBER = b"arr.npy"
_DEFLATED = 8
#: Flag for archive members whose checksum follows the data.
_CHECKSUM_LATER = 1 << 3
#: Errors that reading a damaged archive may raise.
_DAMAGE = (
    *(struct.error, zlib.error, zipfile.BadZipFile, EOFError, OSError),
    *(KeyError, NotImplementedError, RuntimeError, ValueError),
)


def fits_shape(found: tuple[int, ...], shape: Shape) -> bool:
    """Whether an array's shape matches a declared shape, where None means any size."""
    return len(found) == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, found, strict=True)
    )


def decode_npy(
    values: pa.Array, dtype: np.dtype[Any], shape: Shape, *, has_nulls: bool = False
) -> Values:
    """Decode a column of ``.npy`` files.

    Parameters
    ----------
    values : pyarrow.BinaryArray
        Files written by ``numpy.save``, one array per row; null stays null.
    dtype : numpy.dtype
        dtype of all arrays, in native byte order.
    shape : tuple of (int or None)
        Shape of all arrays.
    has_nulls : bool
        Whether the column has nulls in other batches. If so, the result has the same form as if
        `values` had nulls.

    Returns
    -------
    numpy.ndarray
        An array of shape ``(rows, *shape)`` and type `dtype`, if `shape` has no free dimension, no
        row is null, and all times have the same unit.
    pyarrow.ListArray
        Otherwise, if `shape` has one dimension and Arrow supports the type.
    numpy.ndarray
        Otherwise, an object array with an array or None per row.

    Raises
    ------
    ValueError
        If a row is not a ``.npy`` file, or its array has a different dtype or shape.
    """
    files = _Files(values, dtype, shape)
    if None not in shape and files.all_valid and not has_nulls and not files.mixes_units:
        return files.matrix()
    if len(shape) == 1 and dtype.kind in "biuf":
        return files.lists()
    return files.objects()


class _Files:
    """The files in a column, with their headers parsed and checked."""

    def __init__(self, values: pa.Array, dtype: np.dtype[Any], shape: Shape) -> None:
        self._dtype = dtype
        self._shape = shape
        self._valid = np.asarray(values.is_valid())
        self.all_valid = bool(self._valid.all())
        _, offsets, content = values.buffers()
        bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        self._data = np.frombuffer(content or b"", np.uint8)
        ends = bounds[1:][self._valid].astype(np.int64)
        self._starts: _Positions = bounds[:-1][self._valid].astype(np.int64)
        self._sizes: _Positions = ends - self._starts
        self._headers: list[NpyHeader] = []
        #: For each file, the index of its header in `_headers`, and the number of bytes before its
        #: values.
        self._codes: _Positions = np.zeros(len(self._starts), np.int64)
        self._skipped: _Positions = self._find_skipped()
        self._parse()
        self._check()

    @property
    def mixes_units(self) -> bool:
        """Whether times in the files have several units, so that one unit may not fit all."""
        return self._dtype.kind in "mM" and len({header.dtype for header in self._headers}) > 1

    def matrix(self) -> npt.NDArray[Any]:
        """Return all arrays stacked as one."""
        if len(self._headers) > 1:  # equal shapes, but different dtypes or memory orders
            return np.stack(self._arrays())
        if not self._headers or not self._headers[0].size:
            return np.empty((len(self._starts), *(size or 0 for size in self._shape)), self._dtype)
        (header,) = self._headers
        starts = self._starts + self._skipped
        flat = gather_fixed(self._data, starts, np.dtype(np.uint8), header.size)
        values = flat.reshape(len(starts), -1).view(header.dtype)
        if header.fortran_order:
            turned = values.reshape(len(starts), *reversed(header.shape))
            values = turned.transpose(0, *range(turned.ndim - 1, 0, -1))
        return np.ascontiguousarray(values.reshape(len(starts), *header.shape), self._dtype)

    def lists(self) -> pa.Array:
        """Return one-dimensional arrays as an Arrow array of lists."""
        own = {header.dtype for header in self._headers}
        if len(own) > 1:
            return pa.array(list(self.objects()), pa.list_(pa.from_numpy_dtype(self._dtype)))
        sizes = self._sizes - self._skipped
        joined = gather_binary(self._data, self._starts + self._skipped, sizes, pa.binary())
        content = np.frombuffer(joined.buffers()[2] or b"", np.uint8)[: int(sizes.sum())]
        stored = own.pop() if own else self._dtype
        lengths = np.zeros(len(self._valid) + 1, np.int64)
        lengths[1:][self._valid] = sizes // stored.itemsize
        offsets = np.cumsum(lengths).astype(np.int32)
        nulls = None if self.all_valid else np.append(~self._valid, False)
        return pa.ListArray.from_arrays(
            pa.array(offsets, mask=nulls), pa.array(content.view(stored).astype(self._dtype))
        )

    def objects(self) -> npt.NDArray[Any]:
        """Return one array, or None, per row."""
        found = np.empty(len(self._valid), object)
        for row, array in zip(np.flatnonzero(self._valid), self._arrays(), strict=True):
            found[row] = array
        return found

    def _arrays(self) -> list[npt.NDArray[Any]]:
        arrays = []
        files = zip(self._codes.tolist(), self._starts.tolist(), self._sizes.tolist(), strict=True)
        for code, start, size in files:
            header = self._headers[code]
            array = header.array(self._data[start : start + size].tobytes())
            # Strings keep the length declared in the file, and times keep their unit.
            is_number = self._dtype.kind in "biufc"
            wanted = self._dtype if is_number else header.dtype.newbyteorder("=")
            arrays.append(np.asarray(array, wanted, order="C"))
        return arrays

    def _find_skipped(self) -> _Positions:
        """Return the offset of the values in each file, in bytes."""
        data, starts = self._data, self._starts
        if len(starts) == 0:
            return np.zeros(0, np.int64)
        if (self._sizes < _PREFIX_SIZE).any():
            raise ValueError("a value that is too short to be an array")
        prefix = gather_fixed(data, starts, np.dtype(np.uint8), _PREFIX_SIZE)
        if (prefix[:, :6] != _MAGIC).any():
            raise ValueError("a value that is not an array that numpy.save wrote")
        lengths = np.ascontiguousarray(prefix[:, 8:12]).view("<u4")[:, 0].astype(np.int64)
        is_old = prefix[:, 6] == 1
        if (prefix[~is_old, 6] != 2).any():
            raise ValueError("a value in an unknown version of NumPy's format")
        lengths[is_old] &= 0xFFFF  # version 1 stores the length in two bytes
        skipped = lengths + np.where(is_old, _PREFIX_SIZE - 2, _PREFIX_SIZE)
        if (skipped > self._sizes).any():
            raise ValueError("a value that ends before the end of its array")
        return skipped

    def _parse(self) -> None:
        """Parse each distinct header once."""
        for length in np.unique(self._skipped).tolist():
            chosen = np.flatnonzero(self._skipped == length)
            found = gather_fixed(self._data, self._starts[chosen], np.dtype(f"V{length}"))
            texts = pa.Array.from_buffers(
                pa.binary(length), len(chosen), [None, pa.py_buffer(np.ascontiguousarray(found))]
            ).dictionary_encode()
            self._codes[chosen] = np.asarray(texts.indices) + len(self._headers)
            self._headers += [parse_header(text) for text in texts.dictionary.to_pylist()]
        sizes = np.array([header.size for header in self._headers], np.int64)
        if len(sizes) and (sizes[self._codes] != self._sizes - self._skipped).any():
            raise ValueError("a value whose size differs from the size in its header")

    def _check(self) -> None:
        dtype, shape = self._dtype, self._shape
        for header in self._headers:
            if dtype.kind in "biufc" and not np.can_cast(header.dtype, dtype):
                raise ValueError(f"an array of {header.dtype}, but the schema declares {dtype}")
            if not fits_shape(header.shape, shape):
                raise ValueError(
                    f"an array of shape {header.shape}, but the schema declares {shape}"
                )


@dataclass(frozen=True)
class NpyHeader:
    """The header of a ``.npy`` file.

    Attributes
    ----------
    dtype, shape : numpy.dtype, tuple of int
        Type and shape of the array.
    fortran_order : bool
        Whether the array is stored in Fortran order, with the first index changing fastest.
    start : int
        Offset of the values in bytes.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    start: int

    @property
    def size(self) -> int:
        """Size of the values in bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    def array(self, file: bytes) -> npt.NDArray[Any]:
        """Return a copy of the array in a file with this header.

        Raises
        ------
        ValueError
            If the file is too short.
        """
        if len(file) < self.start + self.size:
            raise ValueError(
                f"its header describes {self.shape} of {self.dtype}, but the data is shorter"
            )
        order: Literal["F", "C"] = "F" if self.fortran_order else "C"
        stored: npt.NDArray[Any]
        stored = np.ndarray(self.shape, self.dtype, file, self.start, order=order)
        return np.array(stored)


def parse_header(file: bytes) -> NpyHeader:
    """Parse the header at the beginning of a ``.npy`` file.

    Raises
    ------
    ValueError
        If there is no valid header, or the values are pickles.
    """
    size = int.from_bytes(file[8:10] if file[6:7] == b"\1" else file[8:12], "little")
    return _parsed(bytes(file[: 12 + min(size, MOST_BYTES)]))


@lru_cache(maxsize=256)
def _parsed(text: bytes) -> NpyHeader:
    try:
        shape, fortran_order, dtype, start = _read_header(text)
    except Exception as error:  # older versions of NumPy leak errors from Python's parser
        raise ValueError(f"an array whose header cannot be parsed ({error})") from error
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: their values are pickles")
    if any(size < 0 for size in shape):
        raise ValueError(f"an array whose shape {shape} has a negative size")
    return NpyHeader(dtype, shape, fortran_order, start)


def _read_header(text: bytes, attempts: int = 10) -> tuple[tuple[int, ...], bool, Any, int]:
    """Return the shape, memory order, and dtype in a header, and its size in bytes."""
    file = BytesIO(text)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    if version[0] > 1:
        read = np.lib.format.read_array_header_2_0
    try:
        return *read(file), file.tell()
    except SystemError:
        # Python 3.11 counts the depth of all threads' syntax trees together, so that parsing fails
        # if another thread parses at the same time.
        if attempts == 1:
            raise
        return _read_header(text, attempts - 1)


def inflate_npz(values: pa.Array, shape: Shape | None = None) -> pa.Array:
    """Return the ``.npy`` files in ``.npz`` archives that contain a single array named ``arr``.

    Parameters
    ----------
    values : pyarrow.BinaryArray
        The archives; null stays null.
    shape : tuple of (int or None), optional
        The shape declared by the field, as in `inflate`.

    Raises
    ------
    ValueError
        If a row is not such an archive.
    """
    stored = values.to_pylist()
    return pa.array([v if v is None else inflate(v, shape) for v in stored], pa.binary())


def inflate(archive: bytes, shape: Shape | None = None) -> bytes:
    """Decompress the ``.npy`` file in an ``.npz`` archive, up to the size given in its header.

    Parameters
    ----------
    archive : bytes
        An archive of an array named ``arr``, written by ``numpy.savez`` or
        ``numpy.savez_compressed``.
    shape : tuple of (int or None), optional
        The shape declared by the field. Arrays with more values are not decompressed.

    Raises
    ------
    ValueError
        If `archive` is not such an archive, or its array has more values than `shape` allows.
    """
    try:
        return _inflated(archive, shape)
    except _DAMAGE as error:
        raise ValueError(f"a value that is not a compressed array ({error})") from error


def _inflated(archive: bytes, shape: Shape | None) -> bytes:
    """Decompress an archive without reading its directory, 10 times faster than with zipfile."""
    signature, flags, method, checksum, name_size, extra_size = _HEADER.unpack_from(archive)
    start = _HEADER.size + name_size + extra_size
    is_plain = method == _DEFLATED and not flags & _CHECKSUM_LATER
    if signature != _SIGNATURE or not is_plain or archive[_HEADER.size :][:name_size] != _MEMBER:
        with zipfile.ZipFile(BytesIO(archive)) as whole, whole.open(_MEMBER.decode()) as file:
            return _read_array(file.read, shape)
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    left = memoryview(archive)[start:]

    def read(size: int) -> bytes:
        nonlocal left
        found = stream.decompress(left, size)
        left = memoryview(stream.unconsumed_tail)
        return found

    content = _read_array(read, shape)
    if zlib.crc32(content) != checksum:
        raise zlib.error("its checksum is wrong")
    return content


def _read_array(read: Callable[[int], bytes], shape: Shape | None) -> bytes:
    """Read a ``.npy`` file, or raise ValueError if it has more values than the shape allows."""
    content = read(MOST_BYTES)
    header = parse_header(content)
    if shape is not None and None not in shape and math.prod(header.shape) > math.prod(shape):  # type: ignore[arg-type]
        raise ValueError(f"an array of shape {header.shape}, but the schema declares {shape}")
    left = header.start + header.size - len(content)
    return content + read(left) if left > 0 else content
