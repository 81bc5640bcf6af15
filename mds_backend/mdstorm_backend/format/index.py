"""``index.json``: the file that makes a directory an MDS dataset.

The shard objects hold exactly the eleven keys of the format, since other readers refuse more. What
MDS has no word for stands beside the shard list under the top-level key ``"mdstorm"``, which they
ignore.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from mdstorm_backend.base.plain_json import parse_json
from mdstorm_backend.errors import CorruptDatasetError, CorruptIndexError
from mdstorm_backend.format.index_checks import check_depth, check_object, shown
from mdstorm_backend.format.index_parser import describe, parse_shards
from mdstorm_backend.format.shard_info import INDEX_NAME, INDEX_VERSION, FileInfo, ShardInfo

__all__ = ["INDEX_NAME", "FileInfo", "Index", "ShardInfo"]

_OF_COLUMNS = {"column_encodings", "column_names", "column_sizes"}


@dataclass(frozen=True, slots=True)
class Index:
    """The shards of a dataset in order, and the object under ``"mdstorm"`` ({} if absent)."""

    shards: tuple[ShardInfo, ...]
    extra: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Serialise as the format's own writer does: sorted keys, ASCII."""
        value: dict[str, Any] = {
            "shards": [shard.to_json() for shard in self.shards],
            "version": INDEX_VERSION,
        }
        if self.extra:
            value["mdstorm"] = self.extra
        return json.dumps(value, sort_keys=True).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, *, url: str) -> Index:
        """Parse an index.

        Parameters
        ----------
        data : bytes
            Content of the file.
        url : str
            Where it came from, for error messages.

        Raises
        ------
        CorruptDatasetError
            If it is not JSON, a CorruptIndexError, or not the index of an MDS dataset of version 2.
        """
        try:
            with _no_collection():
                return cls(*_parse(data))
        except json.JSONDecodeError as error:
            raise CorruptIndexError(_refusal(url, error), url=url, pos=error.pos) from error
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDatasetError(_refusal(url, error), url=url) from error


def _refusal(url: str, error: Exception) -> str:
    return (
        f"{url} is not the index of an MDS dataset ({describe(error)}). Write the dataset again, "
        "or restore this file from where it was copied"
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from looking at what is being made, which is all alive.

    It would look again and again, and take as long as the parsing of an index of many shards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _share(last: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Let a shard share with the last one what both say of their columns: half of the memory."""
    for key in _OF_COLUMNS & value.keys():
        if last.setdefault(key, value[key]) == value[key]:
            value[key] = last[key]
        else:
            last[key] = value[key]
    return value


def _parse(data: bytes) -> tuple[tuple[ShardInfo, ...], dict[str, Any]]:
    """Parse an index, and let go of its JSON objects before the garbage collector sees them."""
    value = check_object(parse_json(data, object_hook=partial(_share, {})), "the index")
    if value["version"] != INDEX_VERSION:
        raise ValueError(f"version {shown(value['version'])}, expected {INDEX_VERSION}")
    shards = parse_shards(value["shards"])
    extra = check_object(value.get("mdstorm", {}), "the entry 'mdstorm'")
    check_depth(extra, "the entry 'mdstorm'")
    return shards, extra
