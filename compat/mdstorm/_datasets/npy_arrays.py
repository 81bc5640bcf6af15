"""Decode columns of arrays stored in NumPy's ``.npy`` format.

A file is a header, which states dtype and shape in Python syntax, followed by the values. A column
has few distinct headers: each is parsed once, and the values of all rows are copied together.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._schema import fits_shape
from mdstorm_backend.format import Values, gather_binary, gather_fixed
from mdstorm_backend.read import objects

#: Of an array; None for a dimension of any size.
Shape = tuple[int | None, ...]

_MAGIC = np.frombuffer(b"\x93NUMPY", np.uint8)
#: Bytes of the magic, the version, and the longer form of the length of the header.
_PREFIX_SIZE = 12

_Positions = npt.NDArray[np.int64]
#: The header of a member of an archive: flags, method, checksum, and the lengths of its name
#: and of what follows the name.
_HEADER = struct.Struct("<4s2xHH4xI8xHH")
_SIGNATURE = b"PK\x03\x04"
_MEMBER = b"arr.npy"
_DEFLATED = 8
#: The flag of members that are followed by their checksum.
_CHECKSUM_LATER = 1 << 3


@dataclass(frozen=True)
class _Header:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return self.dtype.itemsize * math.prod(self.shape)

    def shaped(self, flat: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Give the values of rows, shape ``(rows, values)``, their own shape."""
        if not self.fortran_order:
            return np.reshape(flat, (len(flat), *self.shape))
        turned = np.reshape(flat, (len(flat), *reversed(self.shape)))
        return np.transpose(turned, (0, *range(turned.ndim - 1, 0, -1)))


def decode_npy(
    values: pa.Array, dtype: np.dtype[Any], shape: Shape, *, has_nulls: bool = False
) -> Values:
    """Decode the files of a column.

    Parameters
    ----------
    values : pyarrow.BinaryArray
        What ``numpy.save`` wrote, one array per row; null stays null.
    dtype : numpy.dtype
        dtype of all arrays, in the byte order of the machine.
    shape : tuple of (int or None)
        Their shape.
    has_nulls : bool
        Whether rows elsewhere are null, if not here: the form is that for a null.

    Returns
    -------
    numpy.ndarray
        ``(rows, *shape)`` of `dtype` where `shape` has no free dimension and no row is null.
    pyarrow.ListArray
        Where `shape` has one dimension otherwise, and Arrow has the type.
    numpy.ndarray
        Of dtype object with an array or None per row, for anything else.

    Raises
    ------
    ValueError
        If a row is no such file, or its array has another dtype or shape.
    """
    files = _Files(values)
    has_type = dtype.kind in "biuf"
    if None not in shape and files.all_valid and not has_nulls:
        return files.matrix(dtype, shape)
    if len(shape) == 1 and has_type:
        return files.lists(dtype, shape)
    return files.objects(dtype, shape)


class _Files:
    """The files of a column, their headers parsed."""

    def __init__(self, values: pa.Array) -> None:
        self._valid = np.asarray(values.is_valid())
        self.all_valid = bool(self._valid.all())
        _, offsets, content = values.buffers()
        bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        self._data = np.frombuffer(content or b"", np.uint8)
        ends = bounds[1:][self._valid].astype(np.int64)
        self._starts: _Positions = bounds[:-1][self._valid].astype(np.int64)
        self._sizes: _Positions = ends - self._starts
        self._headers: list[_Header] = []
        #: The header of each file, and the number of bytes before its values.
        self._codes: _Positions = np.zeros(len(self._starts), np.int64)
        self._skipped: _Positions = self._find_skipped()
        self._parse()

    def matrix(self, dtype: np.dtype[Any], shape: Shape) -> npt.NDArray[Any]:
        """Return all arrays as one."""
        self._check(dtype, shape)
        if len(self._headers) > 1:  # of one shape, in C's and in Fortran's order
            return np.stack(self._arrays(dtype))
        if not self._headers or not self._headers[0].size:
            return np.empty((len(self._starts), *(size or 0 for size in shape)), dtype)
        (header,) = self._headers
        starts = self._starts + self._skipped
        flat = gather_fixed(self._data, starts, np.dtype(np.uint8), header.size)
        values = header.shaped(flat.reshape(len(starts), -1).view(header.dtype))
        return np.ascontiguousarray(values, dtype)

    def lists(self, dtype: np.dtype[Any], shape: Shape) -> pa.Array:
        """Return arrays of one dimension as an Arrow array of lists."""
        self._check(dtype, shape)
        own = {header.dtype for header in self._headers}
        if len(own) > 1:
            return pa.array(list(self.objects(dtype, shape)), pa.list_(pa.from_numpy_dtype(dtype)))
        sizes = self._sizes - self._skipped
        joined = gather_binary(self._data, self._starts + self._skipped, sizes, pa.binary())
        content = np.frombuffer(joined.buffers()[2] or b"", np.uint8)[: int(sizes.sum())]
        stored = own.pop() if own else dtype
        lengths = np.zeros(len(self._valid) + 1, np.int64)
        lengths[1:][self._valid] = sizes // stored.itemsize
        offsets = np.cumsum(lengths).astype(np.int32)
        nulls = None if self.all_valid else np.append(~self._valid, False)
        return pa.ListArray.from_arrays(
            pa.array(offsets, mask=nulls), pa.array(content.view(stored).astype(dtype))
        )

    def objects(self, dtype: np.dtype[Any], shape: Shape) -> npt.NDArray[Any]:
        """Return one array, or None, per row."""
        self._check(dtype, shape)
        arrays = iter(self._arrays(dtype))
        return objects([next(arrays) if valid else None for valid in self._valid.tolist()])

    def _arrays(self, dtype: np.dtype[Any]) -> list[npt.NDArray[Any]]:
        places = (self._starts + self._skipped).tolist()
        found = []
        for code, place in zip(self._codes.tolist(), places, strict=True):
            header = self._headers[code]
            flat = np.frombuffer(self._data[place : place + header.size].tobytes(), header.dtype)
            array = header.shaped(flat.reshape(1, -1))[0]
            # Strings and times are as long, and as fine, as their file says.
            wanted = dtype if dtype.kind in "biufc" else header.dtype.newbyteorder("=")
            found.append(np.array(array, wanted, order="C"))
        return found

    def _find_skipped(self) -> _Positions:
        """Return the number of bytes before the values of each file."""
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
            raise ValueError("a value has an unknown version of NumPy's format")
        lengths[is_old] &= 0xFFFF  # version 1 has two bytes for the length
        skipped = lengths + np.where(is_old, _PREFIX_SIZE - 2, _PREFIX_SIZE)
        if (skipped > self._sizes).any():
            raise ValueError("a value ends before its array does")
        return skipped

    def _parse(self) -> None:
        """Parse every header that there is, once."""
        for length in np.unique(self._skipped).tolist():
            chosen = np.flatnonzero(self._skipped == length)
            found = gather_fixed(self._data, self._starts[chosen], np.dtype(f"V{length}"))
            texts = pa.Array.from_buffers(
                pa.binary(length), len(chosen), [None, pa.py_buffer(np.ascontiguousarray(found))]
            ).dictionary_encode()
            self._codes[chosen] = np.asarray(texts.indices) + len(self._headers)
            self._headers += [_parse_header(text) for text in texts.dictionary.to_pylist()]
        sizes = np.array([header.size for header in self._headers], np.int64)
        if len(sizes) and (sizes[self._codes] != self._sizes - self._skipped).any():
            raise ValueError("a value has another size than its header says")

    def _check(self, dtype: np.dtype[Any], shape: Shape) -> None:
        for header in self._headers:
            if dtype.kind in "biufc" and not np.can_cast(header.dtype, dtype):
                raise ValueError(f"an array of {header.dtype}, and the schema says {dtype}")
            if not fits_shape(header.shape, shape):
                raise ValueError(f"an array of shape {header.shape}, and the schema says {shape}")


def _parse_header(text: bytes) -> _Header:
    file = io.BytesIO(text)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    if version[0] > 1:
        read = np.lib.format.read_array_header_2_0
    try:
        shape, fortran_order, dtype = read(file)
    except Exception as error:  # older versions of NumPy let errors of Python's parser through
        raise ValueError(f"an array whose header cannot be parsed ({error})") from error
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: their values are pickles")
    return _Header(dtype, shape, fortran_order)


def inflate_npz(values: pa.Array) -> pa.Array:
    """Return the files inside archives that hold one array named ``arr``.

    Parameters
    ----------
    values : pyarrow.BinaryArray
        The archives; null stays null.

    Raises
    ------
    ValueError
        If a row is no such archive.
    """
    return pa.array(
        [None if value is None else _inflate(value) for value in values.to_pylist()], pa.binary()
    )


def _inflate(archive: bytes) -> bytes:
    try:
        return _inflate_first(archive)
    except (struct.error, zlib.error, zipfile.BadZipFile, KeyError, NotImplementedError) as error:
        raise ValueError(f"a value that is not a compressed array ({error})") from error


def _inflate_first(archive: bytes) -> bytes:
    """Decompress the first member without reading the archive's directory, ten times as fast."""
    signature, flags, method, checksum, name_size, extra_size = _HEADER.unpack_from(archive)
    start = _HEADER.size + name_size + extra_size
    is_plain = method == _DEFLATED and not flags & _CHECKSUM_LATER
    if signature != _SIGNATURE or not is_plain or archive[_HEADER.size :][:name_size] != _MEMBER:
        with zipfile.ZipFile(BytesIO(archive)) as whole:
            return whole.read(_MEMBER.decode())
    content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(memoryview(archive)[start:])
    if zlib.crc32(content) != checksum:
        raise zlib.error("its checksum is wrong")
    return content
