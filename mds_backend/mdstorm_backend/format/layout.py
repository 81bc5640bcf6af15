"""The byte layout of an MDS shard, for writers and readers.

::

    uint32   n                  samples
    uint32   offsets[n + 1]     absolute; the last one is the file's length
    bytes    header             JSON, ASCII
    bytes    samples            back to back, each: uint32 sizes of its variable-size columns, then
                                the values in the order of the column names

All integers are little-endian; nothing is aligned. The header's entry ``"mdstorm"`` holds metadata
that the format has no key for: the logical schema, and a validity bitmap for every column with
nulls (one bit per row or array element, least significant first, 1 is valid, in base64). For arrays
stored as JSON, whose text shows the nulls, the bitmap only counts them: it has a 0 for every null.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.encodings.registry import sized_encoding
from mdstorm_backend.format.index import ShardInfo, check_depth, check_object, shown
from mdstorm_backend.format.values.nested_lists import ends_of
from mdstorm_backend.storage import Buffer

_SIZE_WORD = 4
#: The largest header in bytes whose content is kept for the next shards.
_SHARED_HEADER = 64 << 10


@dataclass(frozen=True)
class ShardLayout:
    """The columns of a shard in stored order, which determine the layout of a sample.

    Attributes
    ----------
    names : tuple of str
        Column names in stored order.
    encodings : tuple of Encoding
        Their encodings.
    """

    names: tuple[str, ...]
    encodings: tuple[Encoding, ...]

    @classmethod
    def of(cls, info: ShardInfo) -> ShardLayout:
        """Return the layout of the shard that `info` describes."""
        pairs = zip(info.column_encodings, info.column_sizes, strict=True)
        return cls(info.column_names, tuple(sized_encoding(e, size) for e, size in pairs))

    @property
    def is_fixed(self) -> bool:
        """Whether every sample takes the same number of bytes."""
        return all(encoding.size is not None for encoding in self.encodings)

    @property
    def record_dtype(self) -> np.dtype[np.void]:
        """Packed structured dtype of one sample of a fixed-size layout."""
        return _record_dtype(self)

    @property
    def num_variable(self) -> int:
        """Number of variable-size columns."""
        return sum(encoding.size is None for encoding in self.encodings)

    @property
    def size_words(self) -> int:
        """Number of bytes at the start of a sample that hold the sizes of variable-size columns."""
        return _SIZE_WORD * self.num_variable


@lru_cache(maxsize=64)
def _record_dtype(layout: ShardLayout) -> np.dtype[np.void]:
    """Return the same dtype object for equal layouts, because identical objects compare fast."""
    formats = [(e.dtype, e.shape) if e.is_viewed else f"V{e.size}" for e in layout.encodings]
    # In this form of dtype, names can be any strings, even empty ones.
    return np.dtype({"names": list(layout.names), "formats": formats})


@dataclass(frozen=True)
class Validity:
    """Which rows and array elements of one shard are not null.

    Attributes
    ----------
    rows : dict of str to numpy.ndarray
        Column name → bool of shape ``(samples,)``; columns without null rows are absent.
    elements : dict of str to numpy.ndarray
        Array column → bool, one per element of the shard's arrays in stored order; for arrays
        stored as JSON, one False for every null.
    """

    rows: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    elements: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def null_counts(self) -> dict[str, int]:
        """Number of null rows in each column that has any."""
        return {name: int(np.count_nonzero(~mask)) for name, mask in self.rows.items()}

    @property
    def element_null_counts(self) -> dict[str, int]:
        """Number of null elements in each column that has any."""
        return {name: int(np.count_nonzero(~mask)) for name, mask in self.elements.items()}


def pack_validity(validity: Validity) -> dict[str, dict[str, Any]]:
    """Return the JSON form of `validity` that is stored in a shard's header."""

    def pack(masks: dict[str, npt.NDArray[np.bool_]]) -> dict[str, Any]:
        return {
            name: {
                "count": len(mask),
                "bits": base64.b64encode(np.packbits(mask, bitorder="little").data).decode("ascii"),
            }
            for name, mask in masks.items()
        }

    return {"rows": pack(validity.rows), "elements": pack(validity.elements)}


def unpack_validity(value: dict[str, dict[str, Any]]) -> Validity:
    """Parse the result of `pack_validity`.

    Raises
    ------
    AttributeError, LookupError, TypeError, ValueError
        If `value` has a different form. Counts are checked against the number of bits, so that a
        wrong count allocates no memory.
    """
    return Validity(
        {name: _unpack_mask(mask) for name, mask in value.get("rows", {}).items()},
        {name: _unpack_mask(mask) for name, mask in value.get("elements", {}).items()},
    )


def _unpack_mask(mask: dict[str, Any]) -> npt.NDArray[np.bool_]:
    count, bits = mask["count"], base64.b64decode(mask["bits"], validate=True)
    if type(count) is not int or len(bits) != -(-count // 8):
        raise ValueError(f"a bitmap of {len(bits)} bytes has a count of {shown(count)}")
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), count=count, bitorder="little")
    return unpacked.view(np.bool_)


def preamble_size(samples: int, header: bytes) -> int:
    """Return the number of bytes before the first sample."""
    return _SIZE_WORD + _SIZE_WORD * (samples + 1) + len(header)


def preamble(lengths: npt.NDArray[np.int64], header: bytes) -> bytes:
    """Return the bytes before the samples, given the sample lengths in bytes."""
    offsets = ends_of(lengths) + preamble_size(len(lengths), header)
    words = np.uint32(len(lengths)).tobytes(), offsets.astype("<u4").tobytes()
    return b"".join([*words, header])


def parse_header(
    data: npt.NDArray[np.uint8], info: ShardInfo, *, url: str
) -> tuple[npt.NDArray[np.uint32], dict[str, Any]]:
    """Parse the start of a shard, and check it against the shard's index entry.

    Parameters
    ----------
    data : numpy.ndarray
        The whole file, uint8.
    info : ShardInfo
        The shard's index entry.
    url : str
        Where the shard came from, for error messages.

    Returns
    -------
    offsets : numpy.ndarray
        uint32 of shape ``(samples + 1,)``, a view of `data`.
    extra : dict
        The object under ``"mdstorm"`` in the header; empty if there is none. Shards whose headers
        are equal share it: it must not be changed.

    Raises
    ------
    CorruptDatasetError
        If the file is shorter or longer than stated, or contradicts the index.
    """
    if len(data) != info.raw_data.bytes:
        raise CorruptDatasetError.of_file(
            url,
            f"holds {len(data)} bytes, but the index records {info.raw_data.bytes}: the file was "
            "truncated or replaced",
        )
    offsets = _sample_offsets(data)
    if offsets is None or len(offsets) != info.samples + 1:
        what = f"does not start like a shard with {info.samples} samples and {len(data)} bytes"
        raise CorruptDatasetError.of_file(url, what)
    header = data[_SIZE_WORD * (len(offsets) + 1) : offsets[0]].tobytes()
    parse = _parsed_alike if len(header) <= _SHARED_HEADER else _parsed
    extra: dict[str, Any] = _header_text(header, parse, url=url).get("mdstorm", {})
    return offsets, extra


def _sample_offsets(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32] | None:
    """Return where each sample begins and the last one ends; None if the data is not a shard."""
    words = data[: len(data) // _SIZE_WORD * _SIZE_WORD].view("<u4")
    count = int(words[0]) if len(words) else 0
    offsets = words[1 : count + 2]
    first = _SIZE_WORD * (count + 2)
    if len(offsets) <= count or offsets[0] < first or offsets[-1] != len(data):
        return None
    return offsets if (offsets[:-1] <= offsets[1:]).all() else None


def _header_text(
    header: bytes, parse: Callable[[bytes], dict[str, Any]], *, url: str
) -> dict[str, Any]:
    """Parse the JSON of a shard's header, without checking the content of its entries.

    `parse` is `_parsed`, or for a header that is not changed afterwards, `_parsed_alike`.

    Raises
    ------
    CorruptDatasetError
        If the header is not a JSON object, or is nested too deeply.
    """
    try:
        return parse(header)
    except (TypeError, ValueError) as error:
        raise CorruptDatasetError.of_file(url, f"has an unreadable header ({error})") from error


def _parsed(header: bytes) -> dict[str, Any]:
    value = check_object(parse_json(header), "it")
    check_object(value.get("mdstorm", {}), "its entry 'mdstorm'")
    check_depth(value, "it")
    return value


#: Most shards of a dataset have the same header, unless it records nulls.
_parsed_alike = lru_cache(8)(_parsed)


def read_header(data: Buffer, *, url: str) -> tuple[int, dict[str, Any]]:
    """Return the number of samples in an uncompressed shard, and its unchecked header.

    Raises
    ------
    CorruptDatasetError
        If there is no header, or the offsets do not fit into the file, do not ascend or do not end
        at the end of the file.
    """
    bytes_ = np.frombuffer(data, np.uint8)
    offsets = _sample_offsets(bytes_)
    if offsets is None:
        what = f"of {len(data)} bytes does not start like a shard: it was truncated or replaced"
        raise CorruptDatasetError.of_file(url, what)
    header = bytes_[_SIZE_WORD * (len(offsets) + 1) : offsets[0]].tobytes()
    return len(offsets) - 1, _header_text(header, _parsed, url=url)


def shown_json(value: Any) -> str:
    """Return a short form of `value` for a message."""
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:199] + "…"
