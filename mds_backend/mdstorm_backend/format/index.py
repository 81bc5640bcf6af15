"""``index.json``: the file that makes a directory an MDS dataset.

The shard objects have exactly the format's eleven keys, since other readers reject any others.
Metadata that the format has no key for is stored next to the shard list, under the top-level key
``"mdstorm"``, which other readers ignore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.base.collection import no_collection
from mdstorm_backend.errors import (
    CorruptDatasetError,
    CorruptIndexError,
    UnsupportedEncodingError,
    UnsupportedTableError,
)
from mdstorm_backend.format.compression import check_compression
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.shard_info import (
    INDEX_NAME,
    INDEX_VERSION,
    MAX_SHARD_BYTES,
    FileInfo,
    ShardInfo,
)

__all__ = ["INDEX_NAME", "FileInfo", "Index", "ShardInfo"]

_OF_COLUMNS = {"column_encodings", "column_names", "column_sizes"}


#: NumPy's limit for one array element: a sample of fixed-size columns is read as one element.
_MAX_FIXED_BYTES = 2**31 - 1
#: The longest names that file systems and object stores accept, in bytes.
_MAX_COMPONENT_BYTES, _MAX_PATH_BYTES = 255, 1024
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*(/[A-Za-z0-9_\-][A-Za-z0-9_.\-]*)*")
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class Index:
    """A dataset's shards in order, and the object under ``"mdstorm"`` ({} if there is none)."""

    shards: tuple[ShardInfo, ...]
    extra: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Serialise the index as MosaicML Streaming's writer does: sorted keys, ASCII."""
        value: dict[str, Any] = {
            "shards": [shard.to_json() for shard in self.shards],
            "version": INDEX_VERSION,
        }
        if self.extra:
            value["mdstorm"] = self.extra
        return json.dumps(value, sort_keys=True).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, *, url: str) -> Index:
        """Parse the content of an ``index.json``.

        Parameters
        ----------
        data : bytes
            Content of the file.
        url : str
            Where the index came from, for error messages.

        Raises
        ------
        CorruptIndexError
            If `data` is not JSON.
        CorruptDatasetError
            If `data` is JSON, but not the index of a version 2 MDS dataset.
        UnsupportedTableError
            If `data` is an index of MosaicML Streaming's JSON, CSV, TSV or XSV shards.
        """
        try:
            with no_collection():
                return cls(*_parse(data))
        except json.JSONDecodeError as error:
            raise CorruptIndexError(_refusal(url, error), url=url, pos=error.pos) from error
        except _OtherFormatError as error:
            raise UnsupportedTableError(
                f"{url} lists {error} shards, and mdstorm reads only MDS. Read their samples with "
                "MosaicML Streaming, and write them with MDSWriter",
                url=url,
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDatasetError(_refusal(url, error), url=url) from error


def _refusal(url: str, error: Exception) -> str:
    return (
        f"{url} is not the index of an MDS dataset ({describe(error)}). Write the dataset again, "
        "or copy this file again from the original dataset"
    )


def _share(last: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Reuse the previous shard's column lists where they are equal, which halves the memory."""
    if "column_names" in value:
        for key in _OF_COLUMNS:
            found = value.get(key)
            if found is not None and found == last.get(key):
                value[key] = last[key]
            else:
                last[key] = found
    return value


def _parse(data: bytes) -> tuple[tuple[ShardInfo, ...], dict[str, Any]]:
    """Parse an index; its JSON objects are freed on return, before garbage collection resumes."""
    value = check_object(parse_json(data, object_hook=partial(_share, {})), "the index")
    if value["version"] != INDEX_VERSION:
        raise ValueError(f"version {shown(value['version'])}, expected {INDEX_VERSION}")
    shards = parse_shards(value["shards"])
    extra = check_object(value.get("mdstorm", {}), "the entry 'mdstorm'")
    check_depth(extra, "the entry 'mdstorm'")
    return shards, extra


#: MosaicML Streaming's formats of shards that mdstorm does not read.
_OTHER_FORMATS = ("csv", "json", "tsv", "xsv")
_FILE_KEYS = {"basename", "bytes", "hashes"}
_SHARED_KEYS = (
    *("column_names", "column_encodings", "column_sizes"),
    *("compression", "hashes", "size_limit"),
)
_shared_entries = itemgetter(*_SHARED_KEYS)
#: The parsed values of `_SHARED_KEYS`.
_Shared: TypeAlias = tuple[
    tuple[str, ...],
    tuple[str, ...],
    tuple[int | None, ...],
    str | None,
    tuple[str, ...],
    int | str | None,
]
_SHARD_KEYS = {*_SHARED_KEYS, "format", "raw_data", "samples", "version", "zip_data"}


def parse_shard(value: dict[str, Any]) -> ShardInfo:
    """Parse one shard object; raises KeyError, TypeError or ValueError if it is invalid."""
    return ShardParser().parse(value)


def parse_shards(value: Any) -> tuple[ShardInfo, ...]:
    """Parse the list of shards; raises TypeError if it is no list, ValueError for a bad shard."""
    if type(value) is not list:
        raise TypeError(f"shards must be a list, found {shown(value)}")
    parser, shards = ShardParser(), []
    names: dict[str, int] = {}
    for number, entry in enumerate(value):
        try:
            shard = parser.parse(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"shard {number}: {describe(error)}") from error
        for file in (shard.raw_data, shard.zip_data):
            if file is not None and names.setdefault(file.basename, number) != number:
                raise ValueError(
                    f"shards {names[file.basename]} and {number} have the same file, "
                    f"{shown(file.basename)}"
                )
        shards.append(shard)
    return tuple(shards)


class _OtherFormatError(Exception):
    """The shards have another format of MosaicML Streaming."""


class ShardParser:
    """A parser for shard objects that checks entries only once if all shards share them."""

    def __init__(self) -> None:
        self._found: Any = None
        self._shared: _Shared = ((), (), (), None, (), None)
        #: Minimum size of a sample in bytes.
        self._least = 0

    def parse(self, value: Any) -> ShardInfo:
        """Parse one shard object; raises KeyError, TypeError or ValueError if it is invalid.

        If its format is one of the others in MosaicML Streaming, `_OtherFormatError` is raised.
        """
        value = check_object(value, "a shard entry")
        if value.get("format") in _OTHER_FORMATS:
            raise _OtherFormatError(value["format"].upper())
        if len(value) > len(_SHARD_KEYS):
            raise TypeError(f"it has unknown keys: {_unknown(value)}")
        if value["format"] != "mds" or value["version"] != INDEX_VERSION:
            raise ValueError(
                f"shard format {shown(value['format'])} version "
                f"{shown(value['version'])} is not MDS version {INDEX_VERSION}"
            )
        names, encodings, sizes, compression, hashes, size_limit = self._parse_shared(value)
        raw_data = _parse_file(value["raw_data"], MAX_SHARD_BYTES)
        zip_data = _parse_file(value["zip_data"], 2**63 - 1) if value["zip_data"] else None
        samples = check_count(value["samples"], "samples", MAX_SHARD_BYTES)
        if 4 * (samples + 2) + self._least * samples > raw_data.bytes:
            raise ValueError(
                f"{samples} samples of these columns do not fit into {raw_data.bytes} bytes"
            )
        if (compression is None) != (zip_data is None):
            raise ValueError(
                f"compression {shown(compression)} and zip_data "
                f"{shown(zip_data and zip_data.basename)} contradict each other"
            )
        if zip_data is not None and zip_data.basename == raw_data.basename:
            raise ValueError(f"raw_data and zip_data are the same file, {shown(raw_data.basename)}")
        columns = names, encodings, sizes
        return ShardInfo(*columns, samples, raw_data, zip_data, compression, hashes, size_limit)

    def _parse_shared(self, value: dict[str, Any]) -> _Shared:
        """Return the checked entries that shards of the same dataset usually share."""
        entries = _shared_entries(value)
        if entries != self._found:
            names = check_texts(value["column_names"], "column_names")
            encodings = check_texts(value["column_encodings"], "column_encodings")
            sizes = check_sizes(value["column_sizes"], names, encodings)
            compression = None if value["compression"] == "" else value["compression"]
            if compression is not None:
                check_compression(check_text(compression, "compression"))
            hashes = check_texts(value["hashes"], "hashes")
            limit = _parse_size_limit(value["size_limit"])
            self._shared = names, encodings, sizes, compression, hashes, limit
            self._found, self._least = entries, fixed_bytes(sizes)
        return self._shared


def _parse_file(value: Any, limit: int) -> FileInfo:
    """Parse a file entry; `limit` is the largest valid size in bytes."""
    value = check_object(value, "a file entry")
    if len(value) > len(_FILE_KEYS):
        raise TypeError(f"a file entry has unknown keys: {_unknown(value)}")
    if hashes := check_object(value["hashes"], "a file's hashes"):
        hashes = {check_text(k, "a hash"): check_text(v, "a hash") for k, v in hashes.items()}
    name = check_basename(value["basename"], reserved=INDEX_NAME)
    return FileInfo(name, check_count(value["bytes"], "a file size", limit), hashes)


def _parse_size_limit(value: Any) -> int | str | None:
    if value is None:
        return None
    if type(value) is str:
        return check_text(value, "size_limit")
    return check_count(value, "size_limit")


def _unknown(value: dict[str, Any]) -> str:
    return ", ".join(shown(key) for key in sorted(set(value) - _SHARD_KEYS - _FILE_KEYS)[:5])


def describe(error: Exception) -> str:
    """Return an error's message, with its class name unless it is a ValueError."""
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


# Checks of untrusted values. Each returns its value, with the type that was checked, or raises
# TypeError or ValueError with a message that identifies the entry.


def shown(value: object) -> str:
    """Return a short form of `value` for a message, since an invalid value may be large."""
    text = repr(value) if isinstance(value, (str, int, float, type(None))) else ""
    if not text:
        return f"of type {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "…"


def check_object(value: Any, what: str) -> dict[str, Any]:
    """Return `value` if it is a JSON object, else raise TypeError."""
    if type(value) is not dict:
        raise TypeError(f"{what} must be an object, found {shown(value)}")
    return value


def check_text(value: Any, what: str) -> str:
    """Return `value` if it is a string that UTF-8 can encode: JSON allows lone surrogates."""
    if type(value) is not str:
        raise TypeError(f"{what} must be a string, found {shown(value)}")
    if not value.isascii():
        value.encode("utf-8")
    return value


def check_texts(value: Any, what: str) -> tuple[str, ...]:
    """Return `value` as a tuple if it is a list of strings."""
    if type(value) is not list:
        raise TypeError(f"{what} must be a list, found {shown(value)}")
    return tuple([check_text(item, what) for item in value])


def check_count(value: Any, what: str, limit: int = 2**63 - 1) -> int:
    """Return `value` if it is an integer from 0 to `limit`, and not a bool."""
    if type(value) is not int:
        raise TypeError(f"{what} must be an integer, found {shown(value)}")
    if not 0 <= value <= limit:
        raise ValueError(f"{what} must be between 0 and {limit}")
    return value


def check_basename(value: Any, reserved: str) -> str:
    """Return `value` if it is the path of a file under the dataset directory.

    Raises
    ------
    ValueError
        If the path leads elsewhere: it is empty or absolute, has an empty, ``.`` or ``..``
        component, a drive letter, a backslash or a NUL, or is the name `reserved`; or if it is too
        long for a file name.
    """
    name = check_text(value, "a basename")
    if len(name) <= _MAX_COMPONENT_BYTES and name != reserved and _PLAIN_PATH.fullmatch(name):
        return name  # like nearly all names
    size = len(name) if name.isascii() else len(name.encode("utf-8"))
    components = name.split("/")
    if (
        any(component in ("", ".", "..") for component in components)
        or "\\" in name
        or "\0" in name
        or _DRIVE.match(name)
    ):
        raise ValueError(
            f"the basename {shown(name)} is not the name of a file inside the dataset directory"
        )
    if size > _MAX_PATH_BYTES or (
        size > _MAX_COMPONENT_BYTES
        and any(len(part.encode("utf-8")) > _MAX_COMPONENT_BYTES for part in components)
    ):
        raise ValueError(f"the basename {shown(name)} is too long for a file name")
    if name == reserved:
        raise ValueError(f"the basename {name!r} is the name of the index")
    return name


def check_sizes(
    value: Any, names: tuple[str, ...], encodings: tuple[str, ...]
) -> tuple[int | None, ...]:
    """Return the sizes as a tuple, one per column; None means that the size varies.

    A size may differ from the encoding's, because the writer may have redefined the encoding.
    """
    if type(value) is not list:
        raise TypeError(f"column_sizes must be a list, found {shown(value)}")
    if not len(names) == len(encodings) == len(value):
        raise ValueError("column_names, column_encodings and column_sizes differ in length")
    if len(set(names)) < len(names):
        raise ValueError("column_names contains a name twice")
    for name, encoding, size in zip(names, encodings, value, strict=True):
        if size is not None:
            check_count(size, "a size in column_sizes", _MAX_FIXED_BYTES)
        if size == 0:
            raise ValueError(f"column {shown(name)} has zero-length values")
        try:
            parse_encoding(encoding)
        except UnsupportedEncodingError as error:
            raise ValueError(f"column {shown(name)}: {error}") from error
    if fixed_bytes(value) > _MAX_FIXED_BYTES:
        raise ValueError("the fixed-size columns of a sample take up 2 GiB or more")
    return tuple(value)


def fixed_bytes(sizes: Sequence[int | None]) -> int:
    """Return the minimum size of a sample: fixed sizes, plus 4 bytes for every other column."""
    return sum([4 if size is None else size for size in sizes])


def check_depth(value: Any, what: str, limit: int = 200) -> None:
    """Raise ValueError if objects and lists are nested too deeply for recursive functions."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise ValueError(f"{what} is nested more than {limit} levels deep")
