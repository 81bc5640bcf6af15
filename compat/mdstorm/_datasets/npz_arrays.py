"""Decompress arrays written by ``numpy.savez_compressed`` to ``.npy`` bytes."""

from __future__ import annotations

import struct
import zipfile
import zlib
from io import BytesIO

import pyarrow as pa

#: The header of a member of an archive: flags, method, checksum, and the lengths of its name
#: and of what follows the name.
_HEADER = struct.Struct("<4s2xHH4xI8xHH")
_SIGNATURE = b"PK\x03\x04"
_MEMBER = b"arr.npy"
_DEFLATED = 8
#: The flag of members that are followed by their checksum.
_CHECKSUM_LATER = 1 << 3


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
