"""Decoding of the values of one column, once their places in the shard are known."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format.batch import Values
from mdstorm_backend.format.encodings import TEXTS, Encoding
from mdstorm_backend.format.encodings.decode_arrays import decode_arrays
from mdstorm_backend.format.encodings.gather import Positions, gather_binary, gather_fixed
from mdstorm_backend.format.encodings.texts import parse_floats, parse_integers

__all__ = ["decode_values"]

#: Texts that are numbers.
_PARSERS = {"str_int": parse_integers, "str_float": parse_floats}


def decode_values(
    data: npt.NDArray[np.uint8], starts: Positions, sizes: Positions | int, encoding: Encoding
) -> Values:
    """Copy the values of a column out of `data`.

    Numbers and arrays of one shape become NumPy arrays, other arrays what `decode_arrays` makes of
    them, text Arrow strings or numbers; images and pickles stay the bytes that are stored.

    Parameters
    ----------
    data : numpy.ndarray
        The shard, uint8.
    starts, sizes : numpy.ndarray
        Position and size in bytes of each value; one size for all if the encoding has one.
    encoding : Encoding
        How they are stored.

    Raises
    ------
    ValueError
        If a value is not what the encoding says.
    """
    if isinstance(sizes, int):
        assert encoding.dtype is not None
        assert encoding.shape is not None
        values = gather_fixed(data, starts, encoding.dtype, math.prod(encoding.shape))
        return values.reshape(len(starts), *encoding.shape)
    if encoding.kind == "ndarray":
        return decode_arrays(data, starts, sizes, encoding.dtype)
    if encoding.kind not in TEXTS:
        return gather_binary(data, starts, sizes, pa.binary())
    texts = gather_binary(data, starts, sizes, pa.string())
    texts.validate(full=True)  # UTF-8: a value that is not would show far from here
    parse = _PARSERS.get(encoding.kind)
    return texts if parse is None else parse(texts)
